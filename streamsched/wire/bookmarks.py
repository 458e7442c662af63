"""Bookmarks: how far watchers and consumers have read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape

_NAME: Final = About("watch.default.flights")
_VALUE: Final = About("17")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkState:
    """A bookmark. `pending`: what a run sets by its success; None: nothing."""

    name: Annotated[str, _NAME]
    revision: Annotated[int, About(3)]
    changed_at: datetime | None
    value: Annotated[str, _VALUE]
    pending: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBookmark:
    """A value, and the revision that was read; `run`: it is set when that run completes."""

    value: Annotated[str, _VALUE]
    revision: Annotated[int, About(3, least=0)]
    run: Annotated[str | None, About("default.flights.weekly.1.1.r1")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkCues:
    """How many cues there were."""

    name: Annotated[str, _NAME]
    cues: Annotated[int, About(2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedBookmark:
    """Whether there was one."""

    name: Annotated[str, _NAME]
    deleted: bool


#: Of all answers with one bookmark.
ANY: Final = JsonShape(BookmarkState, "Bookmark", sometimes=("changedAt", "value", "pending"))
LISTED: Final = JsonShape(BookmarkState, "ListedBookmark", outside=("value", "pending"))
BOOKMARK: Final = JsonShape(BookmarkState, outside=("pending",))
OF_RUN: Final = JsonShape(BookmarkState)
SET_BY_RUN: Final = JsonShape(BookmarkState, outside=("changed_at", "value"))
NEW: Final = JsonShape(NewBookmark)
CUES: Final = JsonShape(BookmarkCues, "Cues")
DELETED: Final = JsonShape(DeletedBookmark)

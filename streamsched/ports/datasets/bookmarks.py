"""Bookmarks: how far a reader has read a dataset. A watcher has one for each dataset it watches.

A run that reads sets its program's bookmark *for its success*: the value is stored beside the bookmark, and becomes the
bookmark's when the run has completed. So what a failed run has read is read again by the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import LONGEST_NAME
from streamsched.domain.names import DatasetRef

_NAME: Final = re.compile(r"[a-zA-Z0-9_][$.a-zA-Z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """One bookmark.

    Attributes:
        value: of the reader's own format.
        revision: the number of times it was set; 1 after the first time.
        changed_at: when it was last set, UTC.
    """

    name: str
    value: str
    revision: int
    changed_at: datetime


def checked_bookmark_name(name: str) -> str:
    """Validates the name of a bookmark and returns it.

    Raises:
        InvalidError: it is not 1 to 255 letters, digits, `_`, `-`, `.` and `$`, beginning with a letter, digit or `_`.
    """
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidError("$.name", f"must be 1 to {LONGEST_NAME} letters, digits, '_', '-', '.' and '$'")
    return name


def watch_bookmark(dataset: DatasetRef) -> str:
    """The name of the bookmark of the watchers of a dataset."""
    return f"watch.{dataset}"


class BookmarkStore(Protocol):
    """Stores bookmarks. Every method raises `UnavailableError` when PostgreSQL is unavailable."""

    async def all(self, *, after: str, limit: int) -> Sequence[Bookmark]:
        """Bookmarks whose names follow `after`, by name; without their values."""
        ...

    async def get(self, name: str) -> Bookmark:
        """Raises:
        NotFoundError: there is none of that name.
        """
        ...

    async def pending(self, name: str, run: str) -> str | None:
        """The value that the run sets by its success; None when it sets none."""
        ...

    async def set_by_run(self, name: str, value: str, *, revision: int, run: str) -> None:
        """Sets the bookmark when the run completes, if its revision is still this one then. A later call by the same
        run replaces the value.

        Raises:
            NotFoundError: there is no such run.
            ConflictError: the revision is another one already.
        """
        ...

    async def set(self, name: str, value: str, *, revision: int, now: datetime) -> Bookmark:
        """Sets the bookmark if its revision is still this one; 0: if there is none. To repeat a call whose answer was
        lost changes nothing.

        Raises:
            ConflictError: its revision is another one, and its value differs.
        """
        ...

    async def cue(self, names: Sequence[str]) -> Sequence[str]:
        """Gives a cue to the readers of these bookmarks: there may be something new. Returns the names of those that
        exist.
        """
        ...

    async def cues(self, name: str) -> int:
        """The number of cues given to the readers of a bookmark; 0 when there is none of that name."""
        ...

    async def delete(self, name: str) -> bool:
        """Deletes it; returns whether it existed."""
        ...

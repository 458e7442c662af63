"""Pages of lists, and their cursors.

A cursor is opaque to clients. In lists by name it is the last name; in lists by time, newest first, the time and id of
the last item. So items that are added or removed between two requests do not shift later pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from streamsched.domain.errors import DecodeError

_T = TypeVar("_T")

#: Between time and id of a cursor; does not occur in ISO instants.
_SEPARATOR: Final = "~"


def page(
    name: str, found: Sequence[_T], limit: int, view: Callable[[_T], Any], cursor: Callable[[_T], str]
) -> dict[str, Any]:
    """A page as JSON. `found` are the results of a query for `limit + 1` items; the extra one means there are more."""
    shown = found[:limit]
    more = {"next": cursor(shown[-1])} if len(found) > limit else {}
    return {name: [view(each) for each in shown], **more}


def moment_cursor(at: datetime, identity: str) -> str:
    """The cursor of an item in a list by time."""
    return f"{at.isoformat()}{_SEPARATOR}{identity}"


def read_moment_cursor(after: str) -> tuple[datetime, str] | None:
    """Time and id of a cursor; None for the first page.

    Raises:
        DecodeError: it is not a cursor of such a list.
    """
    if not after:
        return None
    moment, separator, identity = after.partition(_SEPARATOR)
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        at = None
    if at is None or not separator or at.tzinfo is None:
        raise DecodeError("after", f"'{after[:200]}' is not a cursor: it must be `next` of the previous page")
    return at, identity

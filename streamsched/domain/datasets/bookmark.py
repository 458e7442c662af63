"""Bookmarks: how far a reader has read a dataset. A watcher has one for each dataset it watches.

A run that reads sets its program's bookmark *for its success*: the value is stored beside the bookmark, and becomes the
bookmark's when the run has completed. So what a failed run has read is read again by the next.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import LONGEST_NAME
from streamsched.domain.names import DatasetRef

_NAME: Final = re.compile(r"[a-zA-Z0-9_][$.a-zA-Z0-9_-]*")


class Bookmark(NamedTuple):
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

"""Files of the repository that tests make and compare; with `UPDATE_DOCS=1` they are written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

_V = TypeVar("_V")


def are_written() -> bool:
    """Whether `UPDATE_DOCS` is set."""
    return bool(os.environ.get("UPDATE_DOCS"))


def assert_written(path: Path, text: str, command: str = "make docs") -> None:
    """The file has that text. `command`: what writes it, with `UPDATE_DOCS=1`."""
    if are_written():
        path.write_text(text, "utf-8")
    stored = path.read_text("utf-8") if path.exists() else ""
    assert stored == text, f"{path.name} is stale: run `{command}`"


def only_added(known: Mapping[str, _V], made: Mapping[str, _V]) -> dict[str, _V]:
    """The content of a file of which nothing ever changes: what is known, and what is new where it is written."""
    return {**made, **known} if are_written() else {**known}

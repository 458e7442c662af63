"""The files that runs leave on the disk of the host that executed them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class Shelf(Protocol):
    """Of one host. Both calls read the disk and may take a while: make them on a thread."""

    def untouched(self, since: datetime) -> Sequence[str]:
        """Runs that have files here, none of which was written to since then (UTC), as this host's disk tells time."""
        ...

    def clear(self, runs: Sequence[str]) -> int:
        """Removes all files of these runs; returns how many there were. Idempotent."""
        ...

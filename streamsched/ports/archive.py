"""The tables of the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ArchiveTable:
    """A partitioned table: the number of its partitions, the start of the oldest (UTC), its size in bytes."""

    table: str
    parts: int
    oldest: datetime | None
    bytes: int

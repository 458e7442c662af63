"""Where records of the log become rows, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

Row = TypeVar("Row")


class Satisfaction(NamedTuple):
    """A ready job as it came from the log; `ready` is the record's value as it stands (JSON text)."""

    job: str
    schedule: str
    generation: int
    sequence: int
    satisfied_at: datetime
    ready: str


@dataclass(frozen=True, slots=True)
class Batch(Generic[Row]):
    """What was read of one partition from `start` up to, not including, `next`: rows in the order of the log."""

    partition: int
    start: int
    next: int
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a take: partitions whose batch was stored, rows that are new, and how many were obsolete."""

    partitions: frozenset[int]
    stored: int
    obsolete: int


class IntakeStore(Protocol[Row]):
    """A table and the positions beside it.

    Of jobs: one that exists already is left as it is; one whose schedule is unknown, deleted, disabled or of another
    generation is stored as OBSOLETE, with the reason. Of wake-ups: `ports.wakes`.
    """

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        """Where to go on reading, for each partition of the topic; a new one starts at 0.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def take(self, topic: str, batches: Sequence[Batch[Row]], *, now: datetime) -> Taken:
        """Stores the rows of each batch together with its new position, in one transaction.

        A batch counts only when its partition still stands at `start` and nobody else is at it; the others change
        nothing and are missing in `Taken.partitions`.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...

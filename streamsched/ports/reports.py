"""What workers tell of their shards, and what waits in the other roles: how an installation is, at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamsched.ports.broker import TopicPartition
from streamsched.ports.leases import Lease

#: Seconds between two reports of a worker.
EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Report:
    """One shard, as its worker tells it.

    Attributes:
        epoch: of the worker's lease; a report of an older one never takes the place of a newer one's.
        doing: starting, reading, folding, committing or pausing.
        turns_s, records_s: in a second, since the report before.
        chunk: records of the last turn.
        recovery_s: how long it took to start, in seconds.
        rows: in its tables.
        halted: schedules in error.
        positions: where its next turn starts.
        silent_s: for how long nothing has got done, not even an empty read, in seconds.
    """

    shard: int
    epoch: int
    doing: str
    turns_s: float
    records_s: float
    chunk: int
    recovery_s: float
    rows: int
    halted: int
    positions: Mapping[TopicPartition, int]
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """A report, and who told it how many seconds ago, by the database's clock."""

    worker: str
    age_s: float
    report: Report


@dataclass(frozen=True, slots=True)
class Queue:
    """Something that waits.

    Attributes:
        oldest_s: for how long the first of it has waited, in seconds; 0 when nothing waits.
        part: whose work it is, of those that one process plays at a time; None where anybody may do it.
    """

    name: str
    waiting: int
    oldest_s: float
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """All that PostgreSQL knows.

    Attributes:
        leases: all of them, also those that have run out.
        taken: how far the topics that become rows are stored.
    """

    told: Sequence[Told]
    leases: Sequence[Lease]
    queues: Sequence[Queue]
    taken: Mapping[TopicPartition, int]


class Reports(Protocol):
    """Where workers tell and people ask."""

    async def tell(self, worker: str, reports: Sequence[Report]) -> None:
        """Puts them in place of what was told of these shards before, unless a later owner told it.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...

    async def standing(self) -> Standing:
        """How things stand.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

"""Reports of shards: written by workers, read for status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from streamsched.ports.broker import TopicPartition

#: Seconds between two reports of a worker.
REPORT_EVERY_S: Final = 2.0


class UnreadDeletion(NamedTuple):
    """Records that were deleted from the log before their shard read them: from offset `first` up to, but without,
    `next`, found at that time (UTC).
    """

    at: datetime
    topic: str
    partition: int
    first: int
    next: int

    @property
    def text(self) -> str:
        """As a part of a sentence."""
        return f"{self.next - self.first} of {self.topic}/{self.partition}, from {self.first} up to {self.next - 1}"


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The state of one shard, reported by its worker.

    Attributes:
        epoch: of the worker's lease; a report of an older epoch does not replace one of a newer.
        doing: starting, reading, folding, committing or pausing.
        turns_s, records_s: per second, since the previous report.
        chunk: records of the last turn.
        recovery_s: seconds it took to start.
        rows: in its tables.
        halted: schedules in error.
        positions: where its next turn starts.
        silent_s: seconds since its last step was done, an empty read included.
        deleted: what was deleted unread, the newest last; those of former processes stay stored while there are none.
        waiting_since: by namespace the log time of the first record of its backlog, in milliseconds.
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
    deleted: Sequence[UnreadDeletion] = ()
    waiting_since: Mapping[str, int] = field(default_factory=dict)


class ReportStore(Protocol):
    """Where workers write."""

    async def save(self, worker: str, reports: Sequence[ShardReport]) -> None:
        """Replaces the reports of these shards, except those of a later epoch.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...

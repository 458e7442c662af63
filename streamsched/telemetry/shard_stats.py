"""The progress counters and statistics of a shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.ports.broker import TopicPartition
from streamsched.ports.reports import UnreadDeletion

#: Spans of deleted records that are kept.
_SPANS: Final = 10


@dataclass(slots=True)
class ShardStats:
    """One per shard and worker; it outlives restarts of the shard. Written by the event loop, read from any thread:
    fields are assigned, never changed in place.

    Attributes:
        doing: starting, reading, folding, committing, pausing.
        progress: increases with every step, also with an empty read; a shard that is stuck does not increase it.
        turns, records: turns committed, and the number of their records.
        chunk: the number of records in the last turn.
        recovery_s: duration of the last start in seconds.
        rows: the number of rows in its tables.
        halted: the number of schedules in error.
        lost_keys: correlation keys that ended incomplete since the shard started.
        refused: events refused since then because they have too many correlation keys.
        unread_deleted: records that were deleted from the log before they were read, since the process started.
        deleted: the last ten spans of them.
        positions: where the next turn starts.
        waiting_since: by namespace the log time of the first record of its backlog, in milliseconds.
    """

    doing: str = "starting"
    progress: int = 0
    turns: int = 0
    records: int = 0
    chunk: int = 0
    recovery_s: float = 0.0
    rows: int = 0
    halted: int = 0
    lost_keys: int = 0
    refused: int = 0
    unread_deleted: int = 0
    deleted: tuple[UnreadDeletion, ...] = ()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    waiting_since: Mapping[str, int] = field(default_factory=dict)

    def enter(self, doing: str) -> None:
        """Sets `doing` and increases `progress`."""
        self.doing = doing
        self.progress += 1

    def note_deleted(self, found: UnreadDeletion) -> bool:
        """Counts a span, once however often a turn is repeated. Returns whether it is new."""
        if any(each[1:] == found[1:] for each in self.deleted):
            return False
        self.unread_deleted += found.next - found.first
        self.deleted = (*self.deleted, found)[-_SPANS:]
        return True

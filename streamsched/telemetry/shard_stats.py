"""The progress counters and statistics of a shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsched.ports.broker import TopicPartition


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
        positions: where the next turn starts.
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
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)

    def enter(self, doing: str) -> None:
        """Sets `doing` and increases `progress`."""
        self.doing = doing
        self.progress += 1

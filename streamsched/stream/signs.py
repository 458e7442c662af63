"""Signs of life of a shard: counted as it works, read by whoever wants to know, from another thread too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsched.ports.broker import TopicPartition


@dataclass(slots=True)
class Signs:
    """One for all lives of a shard on one worker. Fields are set, never changed in place.

    Attributes:
        doing: starting, reading, folding, committing, pausing.
        progress: grows with everything that gets done, an empty read too; standing still means being stuck.
        turns, records: how many turns have become visible, of how many records in all.
        chunk: records of the last turn.
        recovery_s: how long the last start took, in seconds.
        rows: in its tables.
        halted: schedules in error.
        positions: where its next turn starts.
    """

    doing: str = "starting"
    progress: int = 0
    turns: int = 0
    records: int = 0
    chunk: int = 0
    recovery_s: float = 0.0
    rows: int = 0
    halted: int = 0
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)

    def at(self, doing: str) -> None:
        """The next thing begins, so the one before is done."""
        self.doing = doing
        self.progress += 1

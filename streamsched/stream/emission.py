"""What the stations say to the world: one call, and dead letters by it."""

from __future__ import annotations

from typing import Protocol

from streamsched.domain.errors import InvalidError
from streamsched.ports import letters
from streamsched.ports.broker import Chunk, Record


class Emit(Protocol):
    """Adds a record to the turn; it becomes visible with the turn or never."""

    def __call__(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...


class Unreadable(Protocol):
    """Whoever keeps verdicts, as far as dead letters go."""

    def unread(self, chunk: Chunk, record: Record, error: InvalidError) -> None: ...


def dead_letter(
    emit: Emit, shard: int, chunk: Chunk, record: Record, error: InvalidError, *, ledger: Unreadable | None
) -> None:
    """Puts a record nobody can read where a person can, and its verdict beside it, as part of the turn."""
    emit(*letters.dead_letter(chunk, record, error, partition=shard))
    if ledger is not None:
        ledger.unread(chunk, record, error)

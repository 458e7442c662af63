"""What the stations say to the world: one call, and dead letters by it."""

from __future__ import annotations

from typing import Final, Protocol

from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.ports import letters
from streamsched.ports.broker import Chunk, Record

#: As many characters of an exception's message are kept.
_SAID: Final = 1000


class Emit(Protocol):
    """Adds a record to the turn; it becomes visible with the turn or never."""

    def __call__(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...


class Unreadable(Protocol):
    """Whoever keeps verdicts, as far as dead letters go."""

    def unread(self, chunk: Chunk, record: Record, error: InvalidError) -> None: ...


def unforeseen(failure: BaseException) -> InvalidError:
    """Says of a record that taking it raised what nobody had thought of."""
    said = str(failure)[:_SAID].encode(errors="backslashreplace").decode()
    return DecodeError("$", f"cannot be taken: {type(failure).__name__}" + (f": {said}" if said else ""))


def dead_letter(
    emit: Emit,
    shard: int,
    chunk: Chunk,
    record: Record,
    error: InvalidError,
    *,
    ledger: Unreadable | None,
    bare: bool = False,
) -> None:
    """Puts a record nobody can read where a person can, and its verdict beside it, as part of the turn. `bare`: its
    place alone."""
    emit(*letters.dead_letter(chunk, record, error, partition=shard, bare=bare))
    if ledger is not None:
        ledger.unread(chunk, record, error)

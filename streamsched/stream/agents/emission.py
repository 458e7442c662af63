"""How agents emit records, and dead letters among them."""

from __future__ import annotations

from typing import Final, Protocol

from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.log import dead_letters
from streamsched.ports.broker import Chunk, Record

#: The number of characters kept of an exception's message.
_MESSAGE_CHARS: Final = 1000


class Emit(Protocol):
    """Adds a record to the turn's transaction."""

    def __call__(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...


class UndecodableSink(Protocol):
    """Records the verdict of a record that became a dead letter."""

    def undecodable(self, chunk: Chunk, record: Record, error: InvalidError) -> None:
        """Notes that the record became a dead letter, and by which error."""
        ...


def internal_error(failure: BaseException) -> InvalidError:
    """The error of a record whose processing raised an unexpected exception."""
    message = str(failure)[:_MESSAGE_CHARS].encode(errors="backslashreplace").decode()
    return DecodeError("$", f"cannot be processed: {type(failure).__name__}" + (f": {message}" if message else ""))


def dead_letter(
    emit: Emit,
    shard: int,
    chunk: Chunk,
    record: Record,
    error: InvalidError,
    *,
    collector: UndecodableSink | None,
    bare: bool = False,
) -> None:
    """Emits a record as a dead letter, and its verdict to `collector`, as part of the turn. `bare`: only the record's
    topic, partition and offset are kept, not its bytes.
    """
    emit(*dead_letters.dead_letter(chunk, record, error, partition=shard, bare=bare))
    if collector is not None:
        collector.undecodable(chunk, record, error)

"""What the stations say to the world: one call, and the shape of a dead letter."""

from __future__ import annotations

from base64 import b64encode
from typing import Protocol

import orjson

from streamsched.domain.errors import InvalidError
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import DEAD_LETTER


class Emit(Protocol):
    """Adds a record to the turn; it becomes visible with the turn or never."""

    def __call__(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...


def dead_letter(emit: Emit, shard: int, chunk: Chunk, record: Record, error: InvalidError) -> None:
    """Puts a record nobody can read where a person can: with its place in the log, what is wrong and where in it."""
    letter = {
        "topic": chunk.topic,
        "partition": chunk.partition,
        "offset": record.offset,
        "time_ms": record.time_ms,
        "path": error.path,
        "reason": error.reason,
        "key_b64": None if record.key is None else b64encode(record.key).decode(),
        "value_b64": None if record.value is None else b64encode(record.value).decode(),
    }
    emit(DEAD_LETTER, shard, record.key, orjson.dumps(letter))

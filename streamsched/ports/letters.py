"""Dead letters: a record nobody can read, put where a person can."""

from __future__ import annotations

from base64 import b64encode

import orjson

from streamsched.domain.errors import InvalidError
from streamsched.ports.broker import Chunk, Outgoing, Record
from streamsched.ports.topics import DEAD_LETTER


def dead_letter(chunk: Chunk, record: Record, error: InvalidError, *, partition: int) -> Outgoing:
    """The record with its place in the log, what is wrong and where in it, for this partition of `dead-letter`."""
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
    return Outgoing(DEAD_LETTER, partition, record.key, orjson.dumps(letter))

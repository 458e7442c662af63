"""Dead letters: a record nobody can read, put where a person can.

A letter must fit where its record did: base64 makes it a third larger. So of a large record only the beginning is kept
(`cut` says how large it was); all of it stands where it came from, as long as that topic keeps it.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import orjson

from streamsched.domain.errors import InvalidError
from streamsched.ports.broker import Chunk, Outgoing, Record
from streamsched.ports.topics import DEAD_LETTER

#: Of a record with more bytes than that, so many of its value are kept, and so many of its key.
LARGEST: Final = 512 << 10
_VALUE: Final = 64 << 10
_KEY: Final = 1 << 10
#: As many characters of a path and a reason.
_SAID: Final = 2000
#: And in a letter that keeps nothing of its record.
_SAID_BARE: Final = 200


def dead_letter(chunk: Chunk, record: Record, error: InvalidError, *, partition: int, bare: bool = False) -> Outgoing:
    """The record with its place in the log, what is wrong and where in it, for this partition of `dead-letter`.

    `bare`: nothing of the record itself, for a topic that takes no more than that; less than a kibibyte.
    """
    key, value, size = record.key, record.value, len(record.key or b"") + len(record.value or b"")
    said = _SAID_BARE if bare else _SAID
    if bare:
        key = value = None
    elif size > LARGEST:
        key, value = key and key[:_KEY], value and value[:_VALUE]
    letter = {
        "topic": chunk.topic,
        "partition": chunk.partition,
        "offset": record.offset,
        "time_ms": record.time_ms,
        "path": error.path[:said],
        "reason": error.reason[:said],
        "key_b64": None if key is None else b64encode(key).decode(),
        "value_b64": None if value is None else b64encode(value).decode(),
        **({"cut": size} if bare or size > LARGEST else {}),
    }
    return Outgoing(DEAD_LETTER, partition, key, orjson.dumps(letter))

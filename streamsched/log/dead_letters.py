"""Dead letters: records that cannot be processed, with the reason, in topic `dead-letter`.

Base64 makes a dead letter a third larger than its record, and it must fit into its topic. So only the beginning of a
large record is kept, and `cut` gives the record's size; the whole record remains in its topic until its retention ends.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import orjson

from streamsched.domain.errors import InvalidError
from streamsched.log.topics import DEAD_LETTER
from streamsched.ports.broker import Chunk, Outgoing, Record

#: A record with more bytes is cut: these many bytes of its value and of its key are kept.
LARGEST: Final = 512 << 10
_VALUE: Final = 64 << 10
_KEY: Final = 1 << 10
#: The number of characters kept of a path and of a reason, and the same for a bare dead letter.
_TEXT_CHARS: Final = 2000
_BARE_TEXT_CHARS: Final = 200


def dead_letter(chunk: Chunk, record: Record, error: InvalidError, *, partition: int, bare: bool = False) -> Outgoing:
    """The dead letter of a record: its position in the log, the path and reason of the error, and its bytes.
    `partition`: of topic `dead-letter`. `bare`: without the record's bytes, so that it is smaller than 1 KiB.
    """
    key, value, size = record.key, record.value, len(record.key or b"") + len(record.value or b"")
    chars = _BARE_TEXT_CHARS if bare else _TEXT_CHARS
    if bare:
        key = value = None
    elif size > LARGEST:
        key, value = key and key[:_KEY], value and value[:_VALUE]
    document = {
        "topic": chunk.topic,
        "partition": chunk.partition,
        "offset": record.offset,
        "time_ms": record.time_ms,
        "path": error.path[:chars],
        "reason": error.reason[:chars],
        "key_b64": None if key is None else b64encode(key).decode(),
        "value_b64": None if value is None else b64encode(value).decode(),
        **({"cut": size} if bare or size > LARGEST else {}),
    }
    return Outgoing(DEAD_LETTER, partition, key, orjson.dumps(document))

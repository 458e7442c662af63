"""The spelling nearly every record of a busy log has, read in a straight line.

Partitions added, in our own native JSON, complete and in order. `codec.event` and `codec.signal` stay the truth: what
is unusual in any way is theirs, and they name what is wrong with it. What is read here they would read alike (a
property of the tests), for two thirds of the price.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from streamsched.codec.event import LOG_ID
from streamsched.codec.native import PARTITIONS_ADDED
from streamsched.codec.scalar import LARGEST, dataset, may_hold_nul
from streamsched.domain.errors import InvalidError
from streamsched.domain.event import Event, Partition, PartitionsAdded, partition_key
from streamsched.domain.names import DatasetRef
from streamsched.domain.signal import Occurred

#: What does not begin so is none of these: not worth a look.
BEGINS: Final = b'{"id":"'

_ABOUT: Final = 1 << 14


def occurred(raw: bytes) -> tuple[bytes, Occurred] | None:
    """The record key of what `raw` says and its signal, whose value is `raw` as it stands. None when in doubt."""
    try:
        found = orjson.loads(raw)
        event_id, source, time, data = found["id"], found["source"], found["time"], found["data"]
        at = datetime.fromisoformat(time)
        head = f'{{"id":"{event_id}","source":"{source}","time":"{time}","type":"{PARTITIONS_ADDED}","data":{{'
        listed, count = data["partitions"], data["count"]
        if (
            # One comparison for the types, the order, no escapes, and no field said twice with another meaning: it is
            # these very bytes that the stations after us glance at.
            not raw.startswith(head.encode())
            or len(found) != 5
            or len(data) != 3
            or at.tzinfo is not UTC
            or not event_id
            or not source
            or not event_id.isprintable()
            or not source.isprintable()
            or event_id.startswith(LOG_ID)
            or found["type"] != PARTITIONS_ADDED
            or type(listed) is not list
            or type(count) is not int
            or not len(listed) <= count <= LARGEST
            or count == 0
            or may_hold_nul(raw)
        ):
            return None
        ref, key = _about(data["dataset"])
        partitions = tuple(map(_partition, listed))
    except (KeyError, TypeError, ValueError, AttributeError, InvalidError):
        return None
    event = Event(event_id, source, at, PartitionsAdded(ref, partitions, count))
    object.__setattr__(event, "encoded", raw)  # it is written already: whoever keeps it need not write it again
    return key, Occurred(event)


def _partition(item: dict[str, Any]) -> Partition:
    """Raises one of what `occurred` catches when it is unusual."""
    key, values, size, rows = item["key"], item["values"], item.get("bytes"), item.get("rows")
    if type(key) is not str or not key or type(values) is not dict:
        raise TypeError
    if len(item) != 2 + (size is not None) + (rows is not None):
        raise TypeError
    for value in values.values():
        if type(value) is not str:
            raise TypeError
    if size is not None and (type(size) is not int or not 0 <= size <= LARGEST):
        raise TypeError
    if rows is not None and (type(rows) is not int or not 0 <= rows <= LARGEST):
        raise TypeError
    return Partition(key, values, size, rows)


@lru_cache(_ABOUT)
def _about(text: str) -> tuple[DatasetRef, bytes]:
    """Parsed once for each dataset, so that all its events share one reference and one key."""
    ref = dataset(text, "$")
    return ref, partition_key(ref).encode()

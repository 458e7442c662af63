"""Fast decoding of the most common record: partitions added, in native JSON as our emitters write it.

`codec.event` and `codec.records.signal` are authoritative: anything unusual is left to them, including errors. Records
accepted here give the same result as there (checked by property tests), at two thirds of the cost.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from streamsched.codec.events.native import LOG_ID, PARTITIONS_ADDED
from streamsched.codec.json.scalar import LARGEST, dataset, may_hold_nul
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import Event, Partition, PartitionsAdded, partition_key
from streamsched.domain.events.trace_context import canonical
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.signal import IN_TIME, Occurred

#: Only records with this prefix can be decoded here.
BEGINS: Final = b'{"id":"'

_CACHED_DATASETS: Final = 1 << 14


def read_occurred(raw: bytes, logged_ms: int = 0) -> tuple[bytes, Occurred] | None:
    """The record key and signal of `raw`, if `raw` itself is the value of that signal's record, but for the time when
    the log took it. None when in doubt.
    """
    try:
        found = orjson.loads(raw)
        event_id, source, time, data = found["id"], found["source"], found["time"], found["data"]
        at = datetime.fromisoformat(time)
        head = f'{{"id":"{event_id}","source":"{source}","time":"{time}","type":"{PARTITIONS_ADDED}","data":{{'
        listed: list[dict[str, Any]] = data["partitions"]  # if the comparison below does not refuse it
        count = data["count"]
        traceparent = None if len(found) == 5 else found["traceparent"]
        run = "" if len(data) == 3 else data["run"]
        if (
            # One comparison checks types, order, absence of escapes and of duplicate fields.
            not raw.startswith(head.encode())
            or (len(found) != 5 and (len(found) != 6 or traceparent is None or canonical(traceparent) != traceparent))
            or (len(data) != 3 and (len(data) != 4 or type(run) is not str or not run or not run.isprintable()))
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
        ref, key = _dataset_and_key(data["dataset"])
        partitions = tuple(map(_partition, listed))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, InvalidError):
        return None
    event = Event(event_id, source, at, PartitionsAdded(ref, partitions, count, run), traceparent)
    object.__setattr__(event, "encoded", raw)  # the bytes are canonical, so the event need not be encoded again
    return key, Occurred(event, IN_TIME, False, logged_ms)


def _partition(item: dict[str, Any]) -> Partition:
    """Raises an error that `read_occurred` catches when the item is unusual."""
    key, size, rows = item["key"], item.get("bytes"), item.get("rows")
    values: dict[str, Any] = item["values"]
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


@lru_cache(_CACHED_DATASETS)
def _dataset_and_key(text: str) -> tuple[DatasetRef, bytes]:
    """The dataset and its event key, cached so that its events share them."""
    ref = dataset(text, "$")
    return ref, partition_key(ref).encode()

"""Native JSON of events: the internal form, also written by our emitters.

    {"id": text, "source": text, "time": ISO 8601 with an offset, "type": …, "data": {…}, "traceparent"?: text}

| type               | data                                                                                         |
|--------------------|----------------------------------------------------------------------------------------------|
| `partitions.added` | `dataset`, `partitions`: list of `{"key", "values", "bytes"?, "rows"?}` or of keys, `count`? |
| `stream.size`      | `stream`, `bytes`, `absolute`? (true, the default: the whole size; false: growth)            |
| `program.status`   | `program`, `run`, `outcome`, `arguments`?, `ended_at`?, `error`?, `log_tail`?, `ancestors`?  |
| `custom`           | `name`, `attributes`?                                                                        |
| `tick`             | `schedule`, `generation`, `leaf`, `due_at`; made by the timers, refused from outside         |

A dataset, stream or event name is `namespace.name` or a name in the default namespace; a program is
`namespace.app.name`; an outcome is started, succeeded, failed or killed. A partition's `key` is Hive style
(`year=2013/month=1`) and `values` are its columns: one may be left out when the other is there. `count` may be left out
when the partitions are named; it is never below their number. `statistics_follow`, true beside partitions without
bytes and rows: a repeat of the event may bring them. `ancestors` (`codec.events.ancestors`) are removed from events of
other emitters. `traceparent` is a context of W3C Trace Context; a malformed one is ignored.
Readers skip fields they do not know, so that older code can read newer events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, assert_never
from urllib.parse import unquote

import orjson

from streamsched.codec.events import ancestors
from streamsched.codec.json.scalar import (
    boolean,
    dataset,
    event_name,
    instant,
    integer,
    mapping,
    name,
    program,
    schedule,
    sequence,
    stream,
    text,
    texts,
)
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.trace_context import canonical
from streamsched.domain.json_value import Json
from streamsched.domain.schedules.catchup import MOST as MOST_CAUGHT_UP

#: How an id begins that ingest made from a log position: such an event is unique by itself.
LOG_ID: Final = "log:"
#: The source of an event that names none.
UNKNOWN_SOURCE: Final = "unknown"
PARTITIONS_ADDED: Final = "partitions.added"
STREAM_SIZE: Final = "stream.size"
PROGRAM_STATUS: Final = "program.status"
CUSTOM: Final = "custom"
TICK: Final = "tick"

_OUTCOMES: Final[Mapping[str, Outcome]] = MappingProxyType({str(outcome): outcome for outcome in Outcome})


def to_json(event: Event) -> dict[str, Any]:
    """The event as a value for `dumps`; `id` and `source` are the first fields."""
    kind, data = fact_to_json(event.fact)
    found = {"id": event.id, "source": event.source, "time": event.time, "type": kind, "data": data}
    if event.traceparent is not None:
        found["traceparent"] = event.traceparent
    return found


def encode_event(event: Event) -> bytes:
    """The event as JSON bytes, cached in `Event.encoded`."""
    raw = event.encoded
    if raw is None:
        raw = dumps(to_json(event))
        object.__setattr__(event, "encoded", raw)
    return raw


def dumps(value: object) -> bytes:
    """JSON bytes; instants in UTC, any mapping as an object."""
    return trim(orjson.dumps(value, option=orjson.OPT_UTC_Z, default=_to_plain))


def trim(written: bytes) -> bytes:
    """A copy without excess memory: bytes written by orjson keep its buffer of at least 4 KB."""
    return b"%b" % written


def from_json(
    value: object, path: str = "$", *, fallback_id: str | None = None, fallback_time: datetime | None = None
) -> Event:
    """Decodes an event, ticks included.

    `fallback_id` and `fallback_time` replace a missing `id` and `time`; an event with an `id` must have a `source`.

    Raises:
        DecodeError: anything else is missing or wrong, with its path.
    """
    found = mapping(value, path)
    given, source = found.get("id"), found.get("source")
    if given is None and fallback_id is not None:
        given = fallback_id
        source = UNKNOWN_SOURCE if source is None else source
    time = found.get("time")
    happened = fallback_time if time is None else None
    return Event(
        name(given, path, ".id"),
        name(source, path, ".source"),
        instant(time, path, ".time") if happened is None else happened,
        fact_from_json(found.get("type"), found.get("data"), path),
        canonical(found["traceparent"]) if "traceparent" in found else None,
    )


def to_plain(value: object) -> Any:
    """`value` after encoding and decoding: instants become text, mappings dicts."""
    return orjson.loads(dumps(value))


def fact_to_json(fact: Fact) -> tuple[str, dict[str, Any]]:
    """The type and the data of a fact."""
    match fact:
        case PartitionsAdded(dataset=ref, partitions=partitions, count=count, run=run):
            listed = [_partition_to_json(partition) for partition in partitions]
            more: dict[str, Any] = {"run": run} if run else {}
            if fact.statistics_follow:
                more["statistics_follow"] = True
            return PARTITIONS_ADDED, {"dataset": str(ref), "partitions": listed, "count": count, **more}
        case StreamSize(stream=ref, bytes=size, absolute=absolute):
            return STREAM_SIZE, {"stream": str(ref), "bytes": size, "absolute": absolute}
        case ProgramReached():
            data: dict[str, Any] = {"program": str(fact.program), "run": fact.run_id, "outcome": fact.outcome}
            if fact.arguments:
                data["arguments"] = fact.arguments
            if fact.ended_at is not None:
                data["ended_at"] = fact.ended_at
            if fact.error is not None:
                data["error"] = fact.error
            if fact.log_tail:
                data["log_tail"] = fact.log_tail
            if fact.ancestors:
                data["ancestors"] = ancestors.to_json(fact.ancestors)
            return PROGRAM_STATUS, data
        case CustomHappened(name=ref, attributes=attributes):
            return CUSTOM, {"name": str(ref), "attributes": attributes}
        case Ticked(schedule=ref, generation=generation, leaf=leaf, due_at=due_at, after=after, missed=missed):
            more = {**({} if after is None else {"after": list(after)}), **({"missed": list(missed)} if missed else {})}
            return TICK, {"schedule": str(ref), "generation": generation, "leaf": leaf, "due_at": due_at, **more}
        case _:
            assert_never(fact)


def fact_from_json(kind: object, data: object, path: str) -> Fact:
    """Decodes a fact of type `kind`; `path` is that of the object with the fields `type` and `data`.

    Raises:
        DecodeError: the type is unknown, or `data` does not fit it.
    """
    read = _READERS.get(kind) if type(kind) is str else None
    if read is None:
        known = ", ".join(_READERS)
        raise DecodeError(f"{path}.type", f"must be one of {known} but is {text(kind, f'{path}.type')!r}")
    return read(mapping(data, path, ".data"), path)


def partition_count(named: int, stated: object, path: str, field: str = "") -> int:
    """How many partitions a commit added: the stated count, or the number named; at least one.

    Raises:
        DecodeError: there is neither, or the count is zero or below the number named.
    """
    if stated is None:
        if named:
            return named
        raise DecodeError(path + field, "names no partition and states no count: a commit adds at least one")
    count = integer(stated, path, field, 1)
    if count < named:
        raise DecodeError(path + field, f"is {count}, but {named} partitions are named")
    return count


def hive_key(values: Mapping[str, str]) -> str:
    """The canonical key of a partition: `year=2013/month=1`."""
    return "/".join(f"{column}={value}" for column, value in values.items())


def _to_plain(value: Json) -> dict[str, Json]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def _partition_to_json(partition: Partition) -> dict[str, Any]:
    found: dict[str, Any] = {"key": partition.key, "values": partition.values}
    if partition.bytes is not None:
        found["bytes"] = partition.bytes
    if partition.rows is not None:
        found["rows"] = partition.rows
    return found


def _partitions_added(data: dict[str, Any], path: str) -> Fact:
    listed = sequence(data.get("partitions", []), path, ".data.partitions")
    found: list[Partition] = []
    for item in listed:
        try:
            found.append(_partition(item))
        except DecodeError as exc:
            raise DecodeError(f"{path}.data.partitions[{len(found)}]{exc.path}", exc.reason) from exc
    count = partition_count(len(found), data.get("count"), path, ".data.count")
    run = "" if data.get("run") is None else name(data["run"], path, ".data.run")
    added = PartitionsAdded(dataset(data.get("dataset"), path, ".data.dataset"), tuple(found), count, run)
    follow = data.get("statistics_follow")
    if follow is None or not boolean(follow, path, ".data.statistics_follow"):
        return added
    if added.has_statistics:
        raise DecodeError(f"{path}.data.statistics_follow", "is true, but the event states bytes or rows already")
    return replace(added, statistics_follow=True)


def _partition(item: object) -> Partition:
    """One partition; error paths are relative to it."""
    if type(item) is str:
        return Partition(text(item, ""), _hive_values(item, ""))
    found = mapping(item, "")
    size, rows, values = found.get("bytes"), found.get("rows"), found.get("values")
    columns = None if values is None else texts(values, ".values")
    key = found.get("key")
    if key is None and columns:
        key = hive_key(columns)
    key = text(key, ".key")
    return Partition(
        key,
        _hive_values(key, ".key") if columns is None else columns,
        None if size is None else integer(size, ".bytes"),
        None if rows is None else integer(rows, ".rows"),
    )


def _hive_values(key: str, path: str) -> dict[str, str]:
    """The columns of a Hive key, without its escapes (`%2F`); parts that are not `column=value` are ignored.

    Raises:
        DecodeError: it has an escaped NUL.
    """
    if "%00" in key:
        raise DecodeError(path, "must not hold a NUL character, %00")
    pairs = (part.partition("=") for part in key.split("/"))
    if "%" in key:
        return {unquote(column): unquote(value) for column, equals, value in pairs if equals}
    return {column: value for column, equals, value in pairs if equals}


def _stream_size(data: dict[str, Any], path: str) -> Fact:
    return StreamSize(
        stream(data.get("stream"), path, ".data.stream"),
        integer(data.get("bytes"), path, ".data.bytes"),
        boolean(data.get("absolute", True), path, ".data.absolute"),
    )


def _program_status(data: dict[str, Any], path: str) -> Fact:
    stated = data.get("outcome")
    outcome = _OUTCOMES.get(stated) if type(stated) is str else None
    if outcome is None:
        known = ", ".join(_OUTCOMES)
        where = f"{path}.data.outcome"
        raise DecodeError(where, f"must be one of {known} but is {text(stated, where)!r}")
    ended, error = data.get("ended_at"), data.get("error")
    if error is not None and type(error) is not str:
        raise DecodeError(f"{path}.data.error", "must be text")
    tail = data.get("log_tail", "")
    if type(tail) is not str:
        raise DecodeError(f"{path}.data.log_tail", "must be text")
    return ProgramReached(
        program(data.get("program"), path, ".data.program"),
        text(data.get("run"), path, ".data.run"),
        outcome,
        texts(data.get("arguments", {}), path, ".data.arguments"),
        None if ended is None else instant(ended, path, ".data.ended_at"),
        error,
        tail,
        ancestors.from_json(data.get("ancestors"), f"{path}.data.ancestors"),
    )


def _custom(data: dict[str, Any], path: str) -> Fact:
    attributes = texts(data.get("attributes", {}), path, ".data.attributes")
    return CustomHappened(event_name(data.get("name"), path, ".data.name"), attributes)


def _read_after(value: Json, path: str) -> tuple[int, int] | None:
    match value:
        case None:
            return None
        case [int() as generation, int() as sequence] if bool not in (type(generation), type(sequence)):
            return generation, sequence
        case _:
            raise DecodeError(path, "must be two whole numbers, a generation and a sequence")


def _tick(data: dict[str, Any], path: str) -> Fact:
    after = _read_after(data.get("after"), f"{path}.data.after")
    missed: Json = data.get("missed", [])
    if not isinstance(missed, list) or len(missed) > MOST_CAUGHT_UP:
        raise DecodeError(f"{path}.data.missed", f"must be a list of at most {MOST_CAUGHT_UP} instants")
    return Ticked(
        schedule(data.get("schedule"), path, ".data.schedule"),
        integer(data.get("generation"), path, ".data.generation"),
        text(data.get("leaf"), path, ".data.leaf"),
        instant(data.get("due_at"), path, ".data.due_at"),
        after,
        tuple(instant(each, path, f".data.missed[{number}]") for number, each in enumerate(missed)),
    )


_READERS: Final[Mapping[str, Callable[[dict[str, Any], str], Fact]]] = MappingProxyType(
    {
        PARTITIONS_ADDED: _partitions_added,
        STREAM_SIZE: _stream_size,
        PROGRAM_STATUS: _program_status,
        CUSTOM: _custom,
        TICK: _tick,
    }
)

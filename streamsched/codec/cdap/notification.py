"""CDAP's notifications: `{"notificationType": …, "properties": {name: text}}`; structured values are JSON inside text.

| type             | properties read                                                                                |
|------------------|------------------------------------------------------------------------------------------------|
| `PARTITION`      | `datasetId` (`dataset:ns.name`, or an object), `numPartitions`, `partitionKeys`                |
| `PROGRAM_STATUS` | `programRunId` (an object), `programStatus`, `endTime` (ms), `programError`, `userOverrides`   |
| `STREAM_SIZE`    | `streamId` (`stream:ns.name`, or an object), `streamSize` (bytes, absolute)                    |

Refused with a reason, where CDAP ignored them or got stuck: TIME and PROGRAM_HEART_BEAT (ticks are ours), CDAP's own
STREAM_SIZE, which names a schedule and no stream, and statuses no trigger can ask for. A notification has no id, source
or time of its own; those given beside `properties` are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from streamsched.codec.native import hive_key, partition_count
from streamsched.codec.scalar import dataset, instant, integer, loads, mapping, name, sequence, stream, text, texts
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.event import Event, Fact, Outcome, Partition, PartitionsAdded, ProgramReached, StreamSize
from streamsched.domain.names import DEFAULT_NAMESPACE, ProgramRef

#: The source of a notification that names none.
SOURCE: Final = "cdap"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATUSES: Final[Mapping[str, Outcome]] = MappingProxyType(
    {
        "RUNNING": Outcome.STARTED,
        "COMPLETED": Outcome.SUCCEEDED,
        "FAILED": Outcome.FAILED,
        "KILLED": Outcome.KILLED,
    }
)


def from_json(value: object, path: str = "$", *, fallback_id: str, fallback_time: datetime) -> Event:
    """The event a notification says.

    Raises:
        DecodeError: a property is missing or wrong, or the notification says nothing a trigger can ask for.
    """
    found = mapping(value, path)
    kind = text(found.get("notificationType"), f"{path}.notificationType")
    read = _READERS.get(kind)
    if read is None:
        raise DecodeError(f"{path}.notificationType", f"must be one of {', '.join(_READERS)} but is {kind!r}")
    where = f"{path}.properties"
    given, source, time = found.get("id"), found.get("source"), found.get("time")
    return Event(
        fallback_id if given is None else name(given, f"{path}.id"),
        SOURCE if source is None else name(source, f"{path}.source"),
        fallback_time if time is None else instant(time, f"{path}.time"),
        read(mapping(found.get("properties"), where), where),
    )


def _partition(properties: Mapping[str, Any], path: str) -> Fact:
    keys = properties.get("partitionKeys")
    where = f"{path}.partitionKeys"
    listed = [] if keys is None else sequence(_inner(keys, where), where)
    found = tuple(_partition_key(item, f"{where}[{place}]") for place, item in enumerate(listed))
    stated = properties.get("numPartitions")
    count = None if stated is None else _whole(stated, f"{path}.numPartitions")
    return PartitionsAdded(
        dataset(_entity(properties.get("datasetId"), "dataset", f"{path}.datasetId"), f"{path}.datasetId"),
        found,
        partition_count(len(found), count, f"{path}.numPartitions"),
    )


def _partition_key(item: object, path: str) -> Partition:
    """`{"time": ["java.lang.Long", 1494368640000]}`: column → its Java type and value."""
    values: dict[str, Any] = {}
    for column, typed in mapping(item, path).items():
        pair = sequence(typed, f"{path}.{column}")
        if len(pair) != 2:
            raise DecodeError(f"{path}.{column}", "must be a Java type and a value")
        values[column] = pair[1]
    columns = texts(values, path)
    return Partition(text(hive_key(columns), path), columns)


def _program_status(properties: Mapping[str, Any], path: str) -> Fact:
    where = f"{path}.programRunId"
    run = mapping(_inner(properties.get("programRunId"), where), where)
    status = text(properties.get("programStatus"), f"{path}.programStatus")
    outcome = _STATUSES.get(status)
    if outcome is None:
        known = ", ".join(_STATUSES)
        raise DecodeError(f"{path}.programStatus", f"{status!r} is none a trigger can ask for ({known})")
    ended, overrides = properties.get("endTime"), properties.get("userOverrides")
    error = properties.get("programError")
    return ProgramReached(
        _program(run, where),
        text(run.get("run"), f"{where}.run"),
        outcome,
        {} if overrides is None else texts(_inner(overrides, f"{path}.userOverrides"), f"{path}.userOverrides"),
        None if ended is None else _millis(ended, f"{path}.endTime"),
        None if error is None else text(error, f"{path}.programError"),
    )


def _program(run: Mapping[str, Any], path: str) -> ProgramRef:
    namespace = text(run.get("namespace", DEFAULT_NAMESPACE), f"{path}.namespace")
    app = text(run.get("application"), f"{path}.application")
    own = text(run.get("program"), f"{path}.program")
    try:
        return ProgramRef(namespace, app, own)
    except InvalidError as exc:
        raise DecodeError(path, exc.reason) from exc


def _stream_size(properties: Mapping[str, Any], path: str) -> Fact:
    where = f"{path}.streamId"
    return StreamSize(
        stream(_entity(properties.get("streamId"), "stream", where), where),
        integer(_whole(properties.get("streamSize"), f"{path}.streamSize"), f"{path}.streamSize"),
        absolute=True,
    )


def _entity(value: object, noun: str, path: str) -> str:
    """`<noun>:ns.name`, `ns.name`, or the JSON of `{noun, namespace}`, as `ns.name`."""
    if type(value) is str and not value.startswith("{"):
        return value.removeprefix(f"{noun}:")
    found = mapping(_inner(value, path), path)
    namespace = text(found.get("namespace", DEFAULT_NAMESPACE), f"{path}.namespace")
    return f"{namespace}.{text(found.get(noun), f'{path}.{noun}')}"


def _inner(value: object, path: str) -> object:
    """JSON inside text; JSON that was not wrapped in text is taken too."""
    return loads(value, path) if type(value) is str else value


def _whole(value: object, path: str) -> object:
    """A whole number, as a number or as text."""
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value


def _millis(value: object, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=integer(_whole(value, path), path))
    except OverflowError as exc:
        raise DecodeError(path, f"is no time in milliseconds: {value}") from exc


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Fact]]] = MappingProxyType(
    {"PARTITION": _partition, "PROGRAM_STATUS": _program_status, "STREAM_SIZE": _stream_size}
)

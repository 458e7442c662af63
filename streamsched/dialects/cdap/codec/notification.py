"""CDAP's notifications: `{"notificationType": …, "properties": {name: text}}`; structured values are JSON as text.

| type             | properties read                                                                                |
|------------------|------------------------------------------------------------------------------------------------|
| `PARTITION`      | `datasetId` (`dataset:ns.name`, or an object), `numPartitions`, `partitionKeys`                |
| `PROGRAM_STATUS` | `programRunId` (an object), `programStatus`, `endTime` (ms), `programError`, `userOverrides`   |
| `STREAM_SIZE`    | `streamId` (`stream:ns.name`, or an object), `streamSize` (bytes, absolute)                    |
| `EVENT` (ours)   | `event` (`ns.name`), `attributes`                                                              |

Refused, where CDAP ignores or loops: TIME and PROGRAM_HEART_BEAT (ticks are made by our timers), CDAP's own
STREAM_SIZE, which names a schedule and no stream, and statuses that triggers cannot wait for. CDAP's notifications have
no id, source or time; those given beside `properties` are used. Without an id, that of a program status is made of its
run and status, `<run>.completed`, so a repeat is one. The forms of CDAP's design are read too:
`{"timestamp", "eventType", "payload"}` and its class `TriggerEvent`, `{"timestamp", "triggerType", "properties"}`; the
timestamp is in milliseconds since 1970. Extensions, which CDAP ignores: `partitions` of
PARTITION (as in `codec.events.native`, with sizes) and `absolute` of STREAM_SIZE (`false`: growth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, assert_never
from urllib.parse import quote

from streamsched.codec.events.form import EventForm
from streamsched.codec.events.native import (
    PARTITIONS_ADDED,
    dumps,
    fact_from_json,
    fact_to_json,
    hive_key,
    partition_count,
)
from streamsched.codec.json.scalar import (
    boolean,
    dataset,
    event_name,
    instant,
    integer,
    loads,
    mapping,
    name,
    sequence,
    stream,
    text,
    texts,
)
from streamsched.dialects.cdap.codec.primitive import whole_number
from streamsched.dialects.cdap.codec.trigger import VERSION
from streamsched.domain.errors import DecodeError, InvalidError
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
from streamsched.domain.limits import abridge
from streamsched.domain.names import DEFAULT_NAMESPACE, ProgramRef, ScheduleRef

#: The source of a notification without one.
SOURCE: Final = "cdap"
#: The member with the type: of CDAP's messages, of its design's, of its design's class.
_TYPES: Final = ("notificationType", "eventType", "triggerType")
_DRAFTS: Final = ({"eventType", "payload"}, {"triggerType", "properties"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_STATUSES: Final[Mapping[str, Outcome]] = MappingProxyType(
    {
        "RUNNING": Outcome.STARTED,
        "COMPLETED": Outcome.SUCCEEDED,
        "FAILED": Outcome.FAILED,
        "KILLED": Outcome.KILLED,
    }
)


def is_notification(found: Mapping[str, Any]) -> bool:
    """Whether an object has the members of one of the forms."""
    return "notificationType" in found or ("type" not in found and any(names <= found.keys() for names in _DRAFTS))


def from_json(value: object, path: str = "$", *, fallback_id: str, fallback_time: datetime) -> Event:
    """Decodes a notification.

    Raises:
        DecodeError: a property is missing or wrong, or no trigger can wait for the notification.
    """
    found = mapping(value, path)
    named = next((each for each in _TYPES if each in found), _TYPES[0])
    kind = text(found.get(named), f"{path}.{named}")
    read = _READERS.get(kind if named == _TYPES[0] else kind.upper())
    if read is None:
        raise DecodeError(f"{path}.{named}", f"must be one of {', '.join(_READERS)} but is {abridge(kind)}")
    content = "payload" if named == "eventType" else "properties"
    where = f"{path}.{content}"
    given, source = found.get("id"), found.get("source")
    event_id = None if given is None else name(given, f"{path}.id")
    origin = SOURCE if source is None else name(source, f"{path}.source")
    time = _time(found, path) or fallback_time
    fact = read(mapping(found.get(content), where), where)
    event_id = event_id or _id_of_status(fact) or fallback_id
    return Event(event_id, origin, time, fact, canonical(found.get("traceparent")))


def _id_of_status(fact: Fact) -> str | None:
    """The id of a program's status, of which a run has each once; None of another fact. The run is escaped as in a
    URL, so the id never looks like one made from a log position.
    """
    if not isinstance(fact, ProgramReached):
        return None
    return f"{quote(fact.run_id, safe='')}.{_status(fact.outcome).lower()}"


def _status(outcome: Outcome) -> str:
    return next(status for status, each in _STATUSES.items() if each is outcome)


def _time(found: Mapping[str, Any], path: str) -> datetime | None:
    if (time := found.get("time")) is not None:
        return instant(time, f"{path}.time")
    stamp = found.get("timestamp")
    return None if stamp is None else _millis(stamp, f"{path}.timestamp")


def to_json(event: Event) -> dict[str, Any]:
    """The notification of an event, with its id, source and time beside the properties. `from_json` decodes all types
    but TIME; the end of a program is in whole milliseconds.
    """
    kind, properties = _fact_to_json(event.fact)
    inner = {name: value if isinstance(value, str) else dumps(value).decode() for name, value in properties.items()}
    traced = {} if event.traceparent is None else {"traceparent": event.traceparent}
    envelope = {"id": event.id, "source": event.source, "time": event.time, **traced}
    return {**envelope, "notificationType": kind, "properties": inner}


def _fact_to_json(fact: Fact) -> tuple[str, dict[str, Any]]:
    """The type and properties of a fact; values that are not text are written as JSON text."""
    match fact:
        case PartitionsAdded(dataset=ref, partitions=named, count=count):
            _, own = fact_to_json(fact)
            keys = [{column: ["java.lang.String", value] for column, value in each.values.items()} for each in named]
            more = any(each != Partition(hive_key(each.values), each.values) for each in named)
            listed = {"partitions": own["partitions"]} if more else {"partitionKeys": keys}
            return "PARTITION", {"datasetId": f"dataset:{ref}", "numPartitions": str(count), **listed}
        case StreamSize(stream=ref, bytes=size, absolute=absolute):
            growth = {} if absolute else {"absolute": "false"}
            return "STREAM_SIZE", {"streamId": f"stream:{ref}", "streamSize": str(size), **growth}
        case ProgramReached():
            return "PROGRAM_STATUS", _program_to_json(fact)
        case CustomHappened(name=ref, attributes=attributes):
            return "EVENT", {"event": str(ref), "attributes": dict(attributes)}
        case Ticked(schedule=ref, due_at=due_at):
            return "TIME", {
                "scheduleId": schedule_id(ref),
                "systemOverrides": {"scheduleName": ref.name},
                "userOverrides": {"logical.start.time": str((due_at - _EPOCH) // _MILLISECOND)},
            }
        case _:
            assert_never(fact)


def schedule_id(ref: ScheduleRef) -> dict[str, str]:
    """CDAP's JSON of a schedule's id."""
    return {
        "namespace": ref.namespace,
        "application": ref.app,
        "version": VERSION,
        "schedule": ref.name,
        "entity": "SCHEDULE",
    }


def program_run_id(program: ProgramRef, run: str) -> dict[str, str]:
    """CDAP's JSON of a run's id."""
    return {
        "namespace": program.namespace,
        "application": program.app,
        "version": VERSION,
        "type": "Workflow",
        "program": program.name,
        "run": run,
        "entity": "PROGRAM_RUN",
    }


def _program_to_json(fact: ProgramReached) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "programRunId": program_run_id(fact.program, fact.run_id),
        "programStatus": _status(fact.outcome),
    }
    if fact.arguments:
        properties["userOverrides"] = dict(fact.arguments)
    if fact.ended_at is not None:
        properties["endTime"] = str((fact.ended_at - _EPOCH) // _MILLISECOND)
    if fact.error:
        properties["programError"] = fact.error
    return properties


def _partition(properties: Mapping[str, Any], path: str) -> Fact:
    if (own := properties.get("partitions")) is not None:
        return _own_partitions(properties, own, path)
    keys = properties.get("partitionKeys")
    where = f"{path}.partitionKeys"
    listed = [] if keys is None else sequence(_unwrap(keys, where), where)
    found = tuple(_partition_key(item, f"{where}[{index}]") for index, item in enumerate(listed))
    stated = properties.get("numPartitions")
    count = None if stated is None else whole_number(stated)
    return PartitionsAdded(
        dataset(_entity(properties.get("datasetId"), "dataset", f"{path}.datasetId"), f"{path}.datasetId"),
        found,
        partition_count(len(found), count, f"{path}.numPartitions"),
    )


def _own_partitions(properties: Mapping[str, Any], own: object, path: str) -> Fact:
    stated = properties.get("numPartitions")
    data = {
        "dataset": _entity(properties.get("datasetId"), "dataset", f"{path}.datasetId"),
        "partitions": _unwrap(own, f"{path}.partitions"),
        "count": None if stated is None else whole_number(stated),
    }
    try:
        return fact_from_json(PARTITIONS_ADDED, data, path)
    except DecodeError as exc:
        raise DecodeError(exc.path.replace(f"{path}.data", path, 1), exc.reason) from exc


def _event(properties: Mapping[str, Any], path: str) -> Fact:
    attributes = properties.get("attributes")
    where = f"{path}.attributes"
    return CustomHappened(
        event_name(properties.get("event"), f"{path}.event"),
        {} if attributes is None else texts(_unwrap(attributes, where), where),
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
    run = mapping(_unwrap(_require(properties.get("programRunId"), where), where), where)
    status = text(properties.get("programStatus"), f"{path}.programStatus")
    outcome = _STATUSES.get(status)
    if outcome is None:
        known = ", ".join(_STATUSES)
        raise DecodeError(f"{path}.programStatus", f"{abridge(status)} is none a trigger can ask for ({known})")
    ended, overrides = properties.get("endTime"), properties.get("userOverrides")
    error = properties.get("programError")
    return ProgramReached(
        _program(run, where),
        text(run.get("run"), f"{where}.run"),
        outcome,
        {} if overrides is None else texts(_unwrap(overrides, f"{path}.userOverrides"), f"{path}.userOverrides"),
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
        integer(whole_number(properties.get("streamSize")), f"{path}.streamSize"),
        absolute=boolean(_unwrap(properties.get("absolute", True), f"{path}.absolute"), f"{path}.absolute"),
    )


def _entity(value: object, noun: str, path: str) -> str:
    """`<noun>:ns.name`, `ns.name`, or the JSON of `{noun, namespace}`, as `ns.name`."""
    if type(value) is str and not value.startswith("{"):
        return value.removeprefix(f"{noun}:")
    found = mapping(_unwrap(_require(value, path), path), path)
    namespace = text(found.get("namespace", DEFAULT_NAMESPACE), f"{path}.namespace")
    return f"{namespace}.{text(found.get(noun), f'{path}.{noun}')}"


def _require(value: object, path: str) -> object:
    if value is None:
        raise DecodeError(path, "is missing")
    return value


def _unwrap(value: object, path: str) -> object:
    """The value of JSON text; JSON that is not wrapped in text is accepted too."""
    return loads(value, path) if type(value) is str else value


def _millis(value: object, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=integer(whole_number(value), path))
    except OverflowError as exc:
        raise DecodeError(path, f"is no time in milliseconds: {value}") from exc


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Fact]]] = MappingProxyType(
    {"PARTITION": _partition, "PROGRAM_STATUS": _program_status, "STREAM_SIZE": _stream_size, "EVENT": _event}
)


#: As a form of events.
NOTIFICATION: Final = EventForm("CDAP notification", is_notification, from_json)

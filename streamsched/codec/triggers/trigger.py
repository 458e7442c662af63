"""Triggers as JSON, in CDAP's shape where CDAP has one (TIME, PARTITION, PROGRAM_STATUS, STREAM_SIZE, AND, OR).

Extensions: further fields of TIME (`codec.triggers.time_leaf`), `times`, `match` and status RUNNING of PROGRAM_STATUS,
`match` and `distinct` of PARTITION, and the types EVERY, AT, SINCE_LAST_RUN (`duration`), EVENT (`event`, `times`,
`match`), TOTAL (`dataset`, `measure`: bytes or rows, `amount`, `match`, `distinct`) and those of
`codec.triggers.composite`. `match` is an object from column, attribute or argument to a filter
(`codec.triggers.match`). `distinct`: a rewritten partition counts once; without this field every commit counts, as in
CDAP and in definitions stored before the field existed. Submitted definitions have another default
(`codec.schedules.schedule`).

Decoding is lenient: types and statuses are case-insensitive; `entity`, `version` and a program's `type` are optional;
a reference is an object or dotted text. Encoding is canonical: equal triggers give equal JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from streamsched.codec.json.reading import Fields, format_value, kind, prefix_errors
from streamsched.codec.triggers import composite as composites
from streamsched.codec.triggers import match as matches
from streamsched.codec.triggers import time_leaf as ticks
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Outcome
from streamsched.domain.events.match import Match
from streamsched.domain.json_value import Json
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.triggers.keys.key_value import grain_by_name
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    CustomEvent,
    Every,
    Measure,
    Partitions,
    ProgramStatus,
    SinceLastRun,
    StreamGrowth,
    Total,
    Trigger,
)

_MEGABYTE: Final = 1_048_576
#: The fields of a trigger that hold other triggers.
_NESTED: Final = frozenset({"trigger", "triggers", "first", "second", "veto", "of"})
_DEEPEST: Final = 100

_STATUSES: Final[Mapping[Outcome, str]] = MappingProxyType(
    {
        Outcome.STARTED: "RUNNING",
        Outcome.SUCCEEDED: "COMPLETED",
        Outcome.FAILED: "FAILED",
        Outcome.KILLED: "KILLED",
    }
)
_OUTCOMES: Final[Mapping[str, Outcome]] = MappingProxyType(
    {status: outcome for outcome, status in _STATUSES.items()} | {outcome.value.upper(): outcome for outcome in Outcome}
)

_R = TypeVar("_R", DatasetRef, StreamRef, EventName)


def to_json(trigger: Trigger, *, explicit: bool = False) -> dict[str, Any]:
    """The canonical JSON of a trigger. `explicit`: `distinct` is written also when false, and `onCorrection` where keys
    are opened again, so that the result does not depend on the reader's defaults.
    """
    match trigger:
        case Cron() | Every() | At() | SinceLastRun():
            return ticks.to_json(trigger)
        case Partitions(dataset=dataset, count=count, match=match, distinct=distinct):
            of = _ref_to_json("dataset", dataset)
            return {
                "type": "PARTITION",
                "dataset": of,
                "numPartitions": count,
                **_match(match),
                **_distinct_field(distinct, explicit=explicit),
            }
        case Total(dataset=dataset, measure=measure, amount=amount, match=match, distinct=distinct):
            of = _ref_to_json("dataset", dataset)
            return {
                "type": "TOTAL",
                "dataset": of,
                "measure": measure.value,
                "amount": amount,
                **_match(match),
                **_distinct_field(distinct, explicit=explicit),
            }
        case StreamGrowth(stream=stream, bytes=amount):
            size = {"bytes": amount} if amount % _MEGABYTE else {"triggerMB": amount // _MEGABYTE}
            return {"type": "STREAM_SIZE", "streamId": _ref_to_json("stream", stream), **size}
        case ProgramStatus(program=program, outcomes=outcomes, times=times, match=match):
            return {
                "type": "PROGRAM_STATUS",
                "programId": composites.program_to_json(program),
                "programStatuses": sorted(_STATUSES[outcome] for outcome in outcomes),
                **_times(times),
                **_match(match),
            }
        case CustomEvent(name=name, times=times, match=match):
            return {"type": "EVENT", "event": _ref_to_json("event", name), **_times(times), **_match(match)}
        case _:
            return composites.to_json(trigger, partial(to_json, explicit=explicit), explicit=explicit)


class _Defaults(NamedTuple):
    """Defaults of missing fields."""

    app: AppRef | None
    distinct: bool


def from_json(obj: object, path: str = "$", *, app: AppRef | None = None, distinct: bool = False) -> Trigger:
    """Decodes a trigger; names without a namespace, and programs without an app, belong to `app`. `distinct` is the
    default of that field; with it, roll-ups that do not say have `USUAL` corrections, as definitions of today.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the trigger could never hold.
    """
    return composites.check_trigger(_trigger(obj, path, _Defaults(app, distinct), 0), path)


def _trigger(obj: object, path: str, defaults: _Defaults, depth: int) -> Trigger:
    if depth > _DEEPEST:
        raise DecodeError(path, f"is nested deeper than {_DEEPEST} triggers")
    fields = Fields(obj, path)
    kind_of = fields.text("type")
    name = kind_of.upper().replace("-", "_")
    reader = _LEAVES.get(name)
    if reader is not None:
        trigger = reader(fields, defaults.app)
    elif name in _COMMITS:
        trigger = _COMMITS[name](fields, defaults)
    else:
        read = partial(_trigger, defaults=defaults, depth=depth + 1)
        program = partial(_program, app=defaults.app)
        trigger = composites.from_json(name, fields, read, program, submitted=defaults.distinct)
        if trigger is None:
            known = ", ".join(sorted([*_LEAVES, *_COMMITS, *composites.NAMES]))
            fields.fail("type", f"unknown trigger type {format_value(kind_of)} (known: {known})")
    fields.check_all_read()
    return trigger


def counting_commits(trigger: Trigger) -> Trigger:
    """The same trigger, counting every commit."""
    return from_json(_drop_field("distinct", to_json(trigger), lambda obj: obj["type"] in _COMMITS))


def with_text_keys(trigger: Trigger) -> Trigger:
    """The same trigger, whose keys are texts where only the name of the column says that they are periods."""
    return from_json(_drop_field("grain", to_json(trigger), _is_named_by_grain))


def without_defaults(trigger: Trigger) -> Trigger:
    """The same trigger with the defaults of definitions that were stored before these defaults changed: every commit
    counts, keys that only a name says to be periods are texts, corrections open keys again, and an `&` does not say
    that its programs join runs of any ancestor.
    """
    found = to_json(with_text_keys(counting_commits(trigger)))
    for field in ("quiet", "onCorrection", "mixedRuns"):
        found = _drop_field(field, found, lambda obj: obj["type"] in ("PER", "AND"))
    return from_json(found)


def _is_named_by_grain(obj: Mapping[str, Any]) -> bool:
    if (
        obj["type"] != "PER"
        or len(obj.get("by", ())) != 1
        or obj.keys() & {"rolledUpTo", "fannedOutTo", "zone", "calendar"}
    ):
        return False
    return obj.get("grain") == grain_by_name(obj["by"])


def _drop_field(field: str, obj: Json, where: Callable[[Mapping[str, Any]], bool]) -> Json:
    """The JSON of a trigger without a field of the triggers in it for which `where` holds."""
    if isinstance(obj, list):
        return [_drop_field(field, each, where) for each in obj]
    if not isinstance(obj, dict) or "type" not in obj:
        return obj
    return {
        name: _drop_field(field, value, where) if name in _NESTED else value
        for name, value in obj.items()
        if name != field or not where(obj)
    }


def _partitions(fields: Fields, defaults: _Defaults) -> Partitions:
    dataset = _ref(fields, "dataset", "dataset", DatasetRef, defaults.app)
    count, match = fields.integer("numPartitions", minimum=1), matches.field(fields)
    with prefix_errors(fields.path, count="numPartitions"):
        return Partitions(dataset, count, match, _is_distinct(fields, defaults))


def _total(fields: Fields, defaults: _Defaults) -> Total:
    dataset = _ref(fields, "dataset", "dataset", DatasetRef, defaults.app)
    measure = fields.choice("measure", Measure)
    amount, match = fields.integer("amount", minimum=1), matches.field(fields)
    with prefix_errors(fields.path):
        return Total(dataset, measure, amount, match, _is_distinct(fields, defaults))


def _is_distinct(fields: Fields, defaults: _Defaults) -> bool:
    distinct = fields.optional_boolean("distinct")
    return defaults.distinct if distinct is None else distinct


def _stream_size(fields: Fields, app: AppRef | None) -> StreamGrowth:
    stream = _ref(fields, "streamId", "stream", StreamRef, app)
    megabytes = fields.optional_integer("triggerMB", minimum=1)
    amount = fields.optional_integer("bytes", minimum=1)
    if megabytes is not None and amount is not None:
        fields.fail("bytes", "says the size a second time, beside triggerMB")
    if megabytes is not None:
        amount = megabytes * _MEGABYTE
    if amount is None:
        fields.fail("bytes", "is missing (or give triggerMB)")
    with prefix_errors(fields.path, bytes="bytes" if megabytes is None else "triggerMB"):
        return StreamGrowth(stream, amount)


def _program_status(fields: Fields, app: AppRef | None) -> ProgramStatus:
    program = _program(fields, "programId", app)
    outcomes: set[Outcome] = set()
    for status, path in fields.list("programStatuses"):
        outcome = _OUTCOMES.get(status.upper()) if isinstance(status, str) else None
        if outcome is None:
            raise DecodeError(path, f"must be one of {', '.join(_STATUSES.values())} but is {format_value(status)}")
        outcomes.add(outcome)
    if not outcomes:
        fields.fail("programStatuses", "names no status, so it could never hold")
    times, match = fields.optional_integer("times", minimum=1) or 1, matches.field(fields)
    with prefix_errors(fields.path):
        return ProgramStatus(program, frozenset(outcomes), times, match)


def _event(fields: Fields, app: AppRef | None) -> CustomEvent:
    name = _ref(fields, "event", "event", EventName, app)
    times, match = fields.optional_integer("times", minimum=1) or 1, matches.field(fields)
    with prefix_errors(fields.path):
        return CustomEvent(name, times, match)


_LEAVES: Final[Mapping[str, Callable[[Fields, AppRef | None], Trigger]]] = MappingProxyType(
    {
        "TIME": ticks.cron,
        "EVERY": ticks.every,
        "AT": ticks.read_at,
        "SINCE_LAST_RUN": ticks.since_last_run,
        "STREAM_SIZE": _stream_size,
        "PROGRAM_STATUS": _program_status,
        "EVENT": _event,
    }
)
_COMMITS: Final[Mapping[str, Callable[[Fields, _Defaults], Trigger]]] = MappingProxyType(
    {"PARTITION": _partitions, "TOTAL": _total}
)


def _times(times: int) -> dict[str, int]:
    return {} if times == 1 else {"times": times}


def _distinct_field(distinct: bool, *, explicit: bool) -> dict[str, bool]:
    return {"distinct": distinct} if distinct or explicit else {}


def _match(match: Match) -> dict[str, Any]:
    return {"match": matches.to_json(match)} if match else {}


def _ref_to_json(noun: str, ref: DatasetRef | StreamRef | EventName) -> dict[str, str]:
    return {noun: ref.name, "namespace": ref.namespace, "entity": noun.upper()}


def _ref(fields: Fields, name: str, noun: str, kind_of: type[_R], app: AppRef | None) -> _R:
    """A dataset, stream or event: `{noun, namespace}`, `"namespace.name"` or `"name"`."""
    namespace = app.namespace if app else DEFAULT_NAMESPACE
    match fields.required_value(name):
        case str() as text:
            with prefix_errors(fields.path_of(name)):
                return kind_of.parse(text, namespace)
        case Mapping():
            inner = fields.object(name)
            inner.ignore("entity")
            own, given = inner.text(noun), inner.optional_text("namespace")
            inner.check_all_read()
            with prefix_errors(inner.path):
                return kind_of(given or namespace, own)
        case value:
            return fields.fail(name, f"must be an object or a text such as namespace.name but is {kind(value)}")


def _program(fields: Fields, name: str, app: AppRef | None) -> ProgramRef:
    """A program: `{namespace, application, program}`, `"namespace.app.program"` or, within an app, `"program"`."""
    match fields.required_value(name):
        case str() as text:
            with prefix_errors(fields.path_of(name)):
                if app and "." not in text:
                    return ProgramRef(app.namespace, app.app, text)
                return ProgramRef.parse(text)
        case Mapping():
            inner = fields.object(name)
            inner.ignore("entity", "type", "version")
            own = inner.text("program")
            namespace = inner.optional_text("namespace") or (app.namespace if app else DEFAULT_NAMESPACE)
            application = inner.optional_text("application") or (app.app if app else inner.text("application"))
            inner.check_all_read()
            with prefix_errors(inner.path):
                return ProgramRef(namespace, application, own)
        case value:
            return fields.fail(name, f"must be an object or a text namespace.app.program but is {kind(value)}")

"""Constraints as JSON in CDAP's shape: CONCURRENCY, DELAY, LAST_RUN, TIME_RANGE, each with `waitUntilMet`; and our own
GROUP, LOAD (`codec.schedules.load`), PLUGIN, POOL and RATE.

A CONCURRENCY counts active runs `of` the program, schedule or key.
A RATE counts runs `of` the program, schedule or key, or with `group` those of a group; `burst` is its bucket's size.

Without `waitUntilMet` all of them wait, as in the Python API; `dialects.cdap` has CDAP's defaults. Durations are whole
milliseconds in CDAP's fields, or texts such as `15m` in ours (`delay`, `interval`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from types import MappingProxyType
from typing import Any, Final, assert_never

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.codec.schedules import load
from streamsched.codec.shape import schemas
from streamsched.codec.triggers import calendar as calendars
from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Load
from streamsched.domain.constraints.plugin import PlugIn, canonical
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.time.duration import duration_text

_MILLISECOND: Final = timedelta(milliseconds=1)
_WALL: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


def to_json(constraint: Constraint) -> dict[str, Any]:
    """The canonical JSON of a constraint, always with `waitUntilMet`."""
    match constraint:
        case Concurrency(limit=limit, wait=wait, of=of):
            whose = {} if of is ConcurrencyScope.PROGRAM else {"of": of.value}
            return {"type": "CONCURRENCY", "maxConcurrency": limit, **whose, "waitUntilMet": wait}
        case Delay(delay=delay):
            return {"type": "DELAY", **_duration("millisAfterTrigger", "delay", delay), "waitUntilMet": True}
        case Group(name=name, limit=limit, weight=weight, wait=wait):
            return {"type": "GROUP", "group": name, "limit": limit, "weight": weight, "waitUntilMet": wait}
        case LastRun(interval=interval, wait=wait):
            return {"type": "LAST_RUN", **_duration("millisSinceLastRun", "interval", interval), "waitUntilMet": wait}
        case Load():
            return load.to_json(constraint)
        case PlugIn(name=name, wait=wait):
            return {"type": "PLUGIN", "name": name, "config": dict(constraint.settings), "waitUntilMet": wait}
        case Pool(name=name, size=size, priority=priority, wait=wait):
            return {"type": "POOL", "pool": name, "size": size, "priority": priority, "waitUntilMet": wait}
        case Rate(limit=limit, per=per, wait=wait, burst=burst, of=of, group=group):
            return {
                "type": "RATE",
                "maxRuns": limit,
                **_duration("perMillis", "per", per),
                **({} if burst is None else {"burst": burst}),
                **({} if of is RateScope.PROGRAM else {"of": of.value}),
                **({} if group is None else {"group": group}),
                "waitUntilMet": wait,
            }
        case TimeWindow(start=start, end=end, zone=zone, wait=wait, calendar=calendar):
            return {
                "type": "TIME_RANGE",
                "startTime": _wall_text(start),
                "endTime": _wall_text(end),
                "timeZone": zone,
                "waitUntilMet": wait,
                **({"calendar": calendars.to_json(calendar)} if calendar else {}),
            }
        case _:
            assert_never(constraint)


def kind_of(given: str) -> str:
    """The normalized type of a constraint."""
    return given.upper().replace("-", "_")


def from_json(obj: object, path: str = "$") -> Constraint:
    """Decodes a constraint.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the constraint could never be met, or contradicts itself.
    """
    fields = Fields(obj, path)
    given = fields.text("type")
    reader = _READERS.get(kind_of(given))
    if reader is None:
        fields.fail("type", f"unknown constraint type {format_value(given)} (known: {', '.join(sorted(_READERS))})")
    constraint = reader(fields)
    fields.check_all_read()
    return constraint


def _concurrency(fields: Fields) -> Concurrency:
    limit = fields.integer("maxConcurrency", minimum=1)
    of = fields.optional_choice("of", ConcurrencyScope) or ConcurrencyScope.PROGRAM
    wait = fields.optional_boolean("waitUntilMet")
    with prefix_errors(fields.path, limit="maxConcurrency"):
        return Concurrency(limit, wait=wait is not False, of=of)


def _delay(fields: Fields) -> Delay:
    delay = _read_duration(fields, "millisAfterTrigger", "delay")
    if fields.optional_boolean("waitUntilMet") is False:
        fields.fail("waitUntilMet", "must be true: a delay always waits")
    with prefix_errors(fields.path, delay=_duration_field(fields, "millisAfterTrigger", "delay")):
        return Delay(delay)


def _group(fields: Fields) -> Group:
    name, limit = fields.text("group"), fields.integer("limit", minimum=1)
    weight = fields.optional_integer("weight", minimum=1)
    wait = fields.optional_boolean("waitUntilMet")
    with prefix_errors(fields.path, name="group"):
        return Group(name, limit, 1 if weight is None else weight, wait=wait is not False)


def _last_run(fields: Fields) -> LastRun:
    interval = _read_duration(fields, "millisSinceLastRun", "interval")
    wait = fields.optional_boolean("waitUntilMet")
    with prefix_errors(fields.path, interval=_duration_field(fields, "millisSinceLastRun", "interval")):
        return LastRun(interval, wait=wait is not False)


def _plugin(fields: Fields) -> PlugIn:
    name, config = fields.text("name"), fields.optional_object("config")
    wait = fields.optional_boolean("waitUntilMet")
    try:
        text = canonical(config.raw() if config is not None else {})
    except (TypeError, ValueError) as exc:
        fields.fail("config", f"cannot be encoded as JSON: {exc}")
    with prefix_errors(fields.path):
        return PlugIn(name, text, wait=wait is not False)


def _pool(fields: Fields) -> Pool:
    name, size = fields.text("pool"), fields.integer("size", minimum=1)
    priority, wait = fields.optional_integer("priority"), fields.optional_boolean("waitUntilMet")
    with prefix_errors(fields.path, name="pool"):
        return Pool(name, size, priority or 0, wait=wait is not False)


def _rate(fields: Fields) -> Rate:
    limit, per = fields.integer("maxRuns", minimum=1), _read_duration(fields, "perMillis", "per")
    burst, group = fields.optional_integer("burst", minimum=1), fields.optional_text("group")
    of = fields.optional_choice("of", RateScope) or (RateScope.PROGRAM if group is None else RateScope.GROUP)
    wait = fields.optional_boolean("waitUntilMet")
    with prefix_errors(fields.path, limit="maxRuns", per=_duration_field(fields, "perMillis", "per")):
        return Rate(limit, per, wait=wait is not False, burst=burst, of=of, group=group)


def _time_range(fields: Fields) -> TimeWindow:
    start, end = _wall(fields, "startTime"), _wall(fields, "endTime")
    zone = fields.optional_text("timeZone") or "UTC"
    wait, calendar = fields.optional_boolean("waitUntilMet"), calendars.field(fields)
    with prefix_errors(fields.path, start="startTime", end="endTime", zone="timeZone"):
        return TimeWindow(start, end, zone, wait=wait is not False, calendar=calendar)


_READERS: Final[Mapping[str, Callable[[Fields], Constraint]]] = MappingProxyType(
    {
        "CONCURRENCY": _concurrency,
        "DELAY": _delay,
        "GROUP": _group,
        "LAST_RUN": _last_run,
        "LOAD": load.read,
        "PLUGIN": _plugin,
        "POOL": _pool,
        "RATE": _rate,
        "TIME_RANGE": _time_range,
    }
)


def _duration(millis: str, text: str, duration: timedelta) -> dict[str, Any]:
    if duration % _MILLISECOND:
        return {text: duration_text(duration)}
    return {millis: duration // _MILLISECOND}


def _duration_field(fields: Fields, millis: str, text: str) -> str:
    """The field that holds the duration."""
    return text if fields.has(text) else millis


def _read_duration(fields: Fields, millis: str, text: str) -> timedelta:
    if fields.has(text):
        if fields.has(millis):
            fields.fail(text, f"says the duration a second time, beside {millis}")
        fields.ignore(millis)
        return fields.duration(text)
    fields.ignore(text)
    amount = fields.integer(millis, minimum=1)
    try:
        return amount * _MILLISECOND
    except OverflowError:
        return fields.fail(millis, f"is longer than can be counted: {amount}")


def _wall(fields: Fields, name: str) -> time:
    """`HH:MM`; `H:MM` and `HH:MM:SS` are accepted too."""
    text = fields.text(name)
    matched = _WALL.fullmatch(text)
    if matched is None:
        return fields.fail(name, f"must be a time of day from 00:00 to 23:59 but is {format_value(text)}")
    return time(int(matched[1]), int(matched[2]), int(matched[3] or 0))


def _wall_text(wall: time) -> str:
    return wall.isoformat("minutes" if not wall.second else "seconds")


_WAIT: Final = {
    "waitUntilMet": schemas.boolean(about="Whether the job waits (default), or ends when it does not hold.")
}
_NAME: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 255}


def _schema(
    kind: str, required: dict[str, schemas.Schema], optional: dict[str, schemas.Schema] | None = None, **rules: Any
) -> schemas.Schema:
    return schemas.record({"type": schemas.constant(kind), **required}, {**(optional or {}), **_WAIT}, **rules)


def _timed_schema(
    kind: str, millis: str, words: str, required: dict[str, schemas.Schema], optional: dict[str, schemas.Schema]
) -> schemas.Schema:
    """A constraint with one duration: in milliseconds, or as text."""
    ways = {millis: schemas.integer(900_000, least=1), words: schemas.duration()}
    one = [
        {"required": [own], "properties": {own: {"not": {"type": "null"}}, other: {"type": "null"}}}
        for own, other in ((words, millis), (millis, words))
    ]
    return _schema(kind, required, {words: ways[words], millis: ways[millis], **optional}, anyOf=one)


_BAND: Final = schemas.one_of(
    schemas.integer(8),
    schemas.record({"enter": schemas.integer(8), "leave": schemas.integer(4)}),
    about="A threshold, or one to open and one to close.",
)

CONSTRAINTS: Final[schemas.Definitions] = {
    "Constraint": schemas.one_of(
        _schema(
            "CONCURRENCY", {"maxConcurrency": schemas.integer(1, least=1)}, {"of": schemas.choice(ConcurrencyScope)}
        ),
        _timed_schema("DELAY", "millisAfterTrigger", "delay", {}, {}),
        _timed_schema("LAST_RUN", "millisSinceLastRun", "interval", {}, {}),
        _timed_schema(
            "RATE",
            "perMillis",
            "per",
            {"maxRuns": schemas.integer(1, least=1)},
            {
                "burst": schemas.integer(1, least=1),
                "of": schemas.choice(RateScope),
                "group": schemas.text("warehouse", **_NAME),
            },
        ),
        _schema(
            "TIME_RANGE",
            {
                "startTime": schemas.text("22:00", pattern=schemas.WALL),
                "endTime": schemas.text("06:00", pattern=schemas.WALL),
            },
            {
                "timeZone": schemas.text("Europe/Berlin"),
                "calendar": schemas.one_of(schemas.ref("Calendar"), schemas.text("exchange")),
            },
        ),
        _schema(
            "GROUP",
            {"group": schemas.text("warehouse", **_NAME), "limit": schemas.integer(4, least=1)},
            {"weight": schemas.integer(1, least=1)},
        ),
        _schema(
            "POOL",
            {"pool": schemas.text("nightly", **_NAME), "size": schemas.integer(8, least=1)},
            {"priority": schemas.integer(0, least=-1000, most=1000)},
        ),
        _schema(
            "LOAD",
            {"cluster": schemas.text("main", **_NAME)},
            {
                "freeCores": _BAND,
                "freeMemory": _BAND,
                "running": _BAND,
                "startsPerReading": schemas.integer(1, least=1),
            },
        ),
        _schema(
            "PLUGIN",
            {"name": schemas.text("quota", **_NAME)},
            {"config": schemas.object_by_name(schemas.anything(1), "limit")},
        ),
        about="What a job waits for after its trigger.",
    )
}

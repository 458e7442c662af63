"""Constraints as JSON, in CDAP's shape: CONCURRENCY, DELAY, LAST_RUN, TIME_RANGE, each with `waitUntilMet`; and GROUP,
LOAD (`codec.load`), PLUGIN, POOL and RATE, which CDAP does not have.

A RATE counts runs `of` the program, schedule or key, or with `group` those of a group; `burst` is its bucket's size.

Without `waitUntilMet` all of them wait, as in Python; what CDAP's own JSON means without it, `codec.cdap` knows.
Durations are whole milliseconds in CDAP's fields, or texts such as `15m` in ours (`delay`, `interval`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from types import MappingProxyType
from typing import Any, Final, assert_never

from streamsched.codec import calendar as calendars
from streamsched.codec import load
from streamsched.codec.reading import Fields, anchored, shown
from streamsched.domain.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.duration import duration_text, parse_duration
from streamsched.domain.group import Group
from streamsched.domain.load import Load
from streamsched.domain.plugin import PlugIn, canonical
from streamsched.domain.pool import Pool
from streamsched.domain.rate import Metered, Rate
from streamsched.domain.window import TimeWindow

_MILLISECOND: Final = timedelta(milliseconds=1)
_WALL: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


def to_json(constraint: Constraint) -> dict[str, Any]:
    """The canonical JSON of a constraint; `waitUntilMet` is always said."""
    match constraint:
        case Concurrency(limit=limit, wait=wait):
            return {"type": "CONCURRENCY", "maxConcurrency": limit, "waitUntilMet": wait}
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
                **({} if of is Metered.PROGRAM else {"of": of.value}),
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


def from_json(obj: object, path: str = "$") -> Constraint:
    """Reads a constraint.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the constraint could never be met, or contradicts itself.
    """
    fields = Fields(obj, path)
    given = fields.text("type")
    reader = _READERS.get(given.upper().replace("-", "_"))
    if reader is None:
        fields.fail("type", f"is no constraint we know: {shown(given)} (known: {', '.join(sorted(_READERS))})")
    constraint = reader(fields)
    fields.done()
    return constraint


def _concurrency(fields: Fields) -> Concurrency:
    limit = fields.integer("maxConcurrency", minimum=1)
    return Concurrency(limit, wait=fields.optional_boolean("waitUntilMet") is not False)


def _delay(fields: Fields) -> Delay:
    delay = _read_duration(fields, "millisAfterTrigger", "delay")
    if fields.optional_boolean("waitUntilMet") is False:
        fields.fail("waitUntilMet", "must be true: a delay always waits")
    with anchored(fields.path):
        return Delay(delay)


def _group(fields: Fields) -> Group:
    name, limit = fields.text("group"), fields.integer("limit", minimum=1)
    weight = fields.optional_integer("weight", minimum=1)
    wait = fields.optional_boolean("waitUntilMet")
    with anchored(fields.path, name="group"):
        return Group(name, limit, 1 if weight is None else weight, wait=wait is not False)


def _last_run(fields: Fields) -> LastRun:
    interval = _read_duration(fields, "millisSinceLastRun", "interval")
    wait = fields.optional_boolean("waitUntilMet")
    with anchored(fields.path):
        return LastRun(interval, wait=wait is not False)


def _plugin(fields: Fields) -> PlugIn:
    name, config = fields.text("name"), fields.optional_object("config")
    wait = fields.optional_boolean("waitUntilMet")
    try:
        text = canonical(config.raw() if config is not None else {})
    except (TypeError, ValueError) as exc:
        fields.fail("config", f"is nothing JSON can say: {exc}")
    with anchored(fields.path):
        return PlugIn(name, text, wait=wait is not False)


def _pool(fields: Fields) -> Pool:
    name, size = fields.text("pool"), fields.integer("size", minimum=1)
    priority, wait = fields.optional_integer("priority"), fields.optional_boolean("waitUntilMet")
    with anchored(fields.path, name="pool"):
        return Pool(name, size, priority or 0, wait=wait is not False)


def _rate(fields: Fields) -> Rate:
    limit, per = fields.integer("maxRuns", minimum=1), _read_duration(fields, "perMillis", "per")
    burst, group = fields.optional_integer("burst", minimum=1), fields.optional_text("group")
    of = fields.optional_choice("of", Metered) or (Metered.PROGRAM if group is None else Metered.GROUP)
    wait = fields.optional_boolean("waitUntilMet")
    with anchored(fields.path, limit="maxRuns"):
        return Rate(limit, per, wait=wait is not False, burst=burst, of=of, group=group)


def _time_range(fields: Fields) -> TimeWindow:
    start, end = _wall(fields, "startTime"), _wall(fields, "endTime")
    zone = fields.optional_text("timeZone") or "UTC"
    wait, calendar = fields.optional_boolean("waitUntilMet"), calendars.field(fields)
    with anchored(fields.path, start="startTime", end="endTime", zone="timeZone"):
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


def _read_duration(fields: Fields, millis: str, text: str) -> timedelta:
    if fields.has(text):
        if fields.has(millis):
            fields.fail(text, f"says the duration a second time, beside {millis}")
        fields.ignore(millis)
        return parse_duration(fields.text(text), fields.at(text))
    fields.ignore(text)
    amount = fields.integer(millis, minimum=1)
    try:
        return amount * _MILLISECOND
    except OverflowError:
        return fields.fail(millis, f"is longer than can be counted: {amount}")


def _wall(fields: Fields, name: str) -> time:
    """`HH:MM`, or leniently `H:MM` and `HH:MM:SS`."""
    text = fields.text(name)
    matched = _WALL.fullmatch(text)
    if matched is None:
        return fields.fail(name, f"must be a time of day from 00:00 to 23:59 but is {shown(text)}")
    return time(int(matched[1]), int(matched[2]), int(matched[3] or 0))


def _wall_text(wall: time) -> str:
    return wall.isoformat("minutes" if not wall.second else "seconds")

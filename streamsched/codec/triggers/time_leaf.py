"""Time leaves as JSON: CDAP's TIME, and our EVERY, AT and SINCE_LAST_RUN.

    {"type": "TIME", "cronExpression": "0 4 * * *", "timeZone": "Europe/Berlin",
     "dialect": "unix" | "quartz" | "dapr", "inGap": "after" | "skip", "inOverlap": "first" | "second" | "both",
     "calendar": {…}, "onClosed": "skip" | "next" | "previous", "jitter": "5m"}
    {"type": "EVERY", "interval": "15m", "start": "2013-01-08T04:00:00+00:00",
     "calendar": {…}, "timeZone": "Europe/Berlin", "jitter": "5m"}
    {"type": "AT", "instant": "2013-01-08T04:00:00+00:00"}
    {"type": "SINCE_LAST_RUN", "duration": "4h"}

Only the type, `cronExpression`, `interval`, `instant` and `duration` are required; defaults are not written.
`onClosed`, and the zone of an interval, require a calendar (`codec.triggers.calendar`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_never

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.triggers import calendar as calendars
from streamsched.domain.names import AppRef
from streamsched.domain.ticks.fire_times import SHORTEST, check_cron
from streamsched.domain.time.calendar import OnClosed
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.time.duration import duration_text
from streamsched.domain.triggers.trigger import At, Cron, Every, SinceLastRun, TickingLeaf


def to_json(leaf: TickingLeaf) -> dict[str, Any]:
    """The canonical JSON of a time leaf."""
    match leaf:
        case Cron():
            own = {
                "timeZone": None if leaf.zone == "UTC" else leaf.zone,
                "dialect": None if leaf.dialect is Dialect.UNIX else leaf.dialect.value,
                "inGap": leaf.in_gap and leaf.in_gap.value,
                "inOverlap": leaf.in_overlap and leaf.in_overlap.value,
                "onClosed": None if leaf.on_closed is OnClosed.SKIP else leaf.on_closed.value,
            }
            return {"type": "TIME", "cronExpression": leaf.expression, **_without_none({**own, **_common_fields(leaf)})}
        case Every(interval=interval, start=start, zone=zone):
            own = {"start": start and start.isoformat(), "timeZone": None if zone == "UTC" else zone}
            return {
                "type": "EVERY",
                "interval": duration_text(interval),
                **_without_none({**own, **_common_fields(leaf)}),
            }
        case At(instant=instant):
            return {"type": "AT", "instant": instant.isoformat()}
        case SinceLastRun(duration=duration):
            return {"type": "SINCE_LAST_RUN", "duration": duration_text(duration)}
        case _:
            assert_never(leaf)


def cron(fields: Fields, _: AppRef | None, *, shortest: timedelta = SHORTEST) -> Cron:
    """Decodes a TIME trigger. `shortest`: the shortest interval of Dapr's `@every`.

    Raises:
        DecodeError: a field is missing or of the wrong kind.
        InvalidDefinitionError: a field of the expression is wrong, it never matches, or the zone is unknown.
    """
    expression, zone = fields.text("cronExpression"), fields.optional_text("timeZone") or "UTC"
    dialect = fields.optional_choice("dialect", Dialect) or Dialect.UNIX
    in_gap, in_overlap = fields.optional_choice("inGap", InGap), fields.optional_choice("inOverlap", InOverlap)
    calendar, on_closed = calendars.field(fields), fields.optional_choice("onClosed", OnClosed) or OnClosed.SKIP
    jitter = _jitter(fields)
    with prefix_errors(fields.path, expression="cronExpression", zone="timeZone", on_closed="onClosed"):
        leaf = Cron(expression, zone, dialect, in_gap, in_overlap, calendar, on_closed, jitter)
        check_cron(leaf, shortest=shortest)
    return leaf


def every(fields: Fields, _: AppRef | None) -> Every:
    """Decodes an EVERY trigger.

    Raises:
        DecodeError: a field is missing or of the wrong kind.
        InvalidDefinitionError: the interval is invalid or too short; the zone is unknown, or there is no calendar.
    """
    interval = fields.duration("interval")
    start, zone = fields.optional_instant("start"), fields.optional_text("timeZone") or "UTC"
    calendar, jitter = calendars.field(fields), _jitter(fields)
    with prefix_errors(fields.path, zone="timeZone"):
        return Every(interval, start, calendar, zone, jitter)


def read_at(fields: Fields, _: AppRef | None) -> At:
    """Decodes an AT trigger.

    Raises:
        DecodeError: the instant is missing, or has no offset.
        InvalidDefinitionError: it is outside the years allowed.
    """
    instant = fields.instant("instant")
    with prefix_errors(fields.path):
        return At(instant)


def since_last_run(fields: Fields, _: AppRef | None) -> SinceLastRun:
    """Decodes a SINCE_LAST_RUN trigger.

    Raises:
        DecodeError: the duration is missing.
        InvalidDefinitionError: it is invalid, too short or too long.
    """
    duration = fields.duration("duration")
    with prefix_errors(fields.path):
        return SinceLastRun(duration)


def _jitter(fields: Fields) -> timedelta:
    return fields.optional_duration("jitter") or timedelta(0)


def _common_fields(leaf: Cron | Every) -> dict[str, Any]:
    return {
        "calendar": leaf.calendar and calendars.to_json(leaf.calendar),
        "jitter": duration_text(leaf.jitter) if leaf.jitter else None,
    }


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

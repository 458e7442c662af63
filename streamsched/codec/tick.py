"""Time leaves as JSON: CDAP's TIME, and our EVERY and AT.

    {"type": "TIME", "cronExpression": "0 4 * * *", "timeZone": "Europe/Berlin",
     "dialect": "unix" | "quartz" | "dapr", "inGap": "after" | "skip", "inOverlap": "first" | "second" | "both"}
    {"type": "EVERY", "interval": "15m", "start": "2013-01-08T04:00:00+00:00"}
    {"type": "AT", "instant": "2013-01-08T04:00:00+00:00"}

Only type, `cronExpression`, `interval` and `instant` must be there; what is as by default is not written.
"""

from __future__ import annotations

from typing import Any, assert_never

from streamsched.codec.reading import Fields, anchored
from streamsched.domain.cron import check_cron
from streamsched.domain.dialect import Dialect, InGap, InOverlap
from streamsched.domain.duration import duration_text, parse_duration
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import At, Cron, Every, TimeLeaf


def to_json(leaf: TimeLeaf) -> dict[str, Any]:
    """The canonical JSON of a time leaf."""
    match leaf:
        case Cron():
            own = {
                "timeZone": None if leaf.zone == "UTC" else leaf.zone,
                "dialect": None if leaf.dialect is Dialect.UNIX else leaf.dialect.value,
                "inGap": leaf.in_gap and leaf.in_gap.value,
                "inOverlap": leaf.in_overlap and leaf.in_overlap.value,
            }
            return {"type": "TIME", "cronExpression": leaf.expression, **_said(own)}
        case Every(interval=interval, start=start):
            return {
                "type": "EVERY",
                "interval": duration_text(interval),
                **_said({"start": start and start.isoformat()}),
            }
        case At(instant=instant):
            return {"type": "AT", "instant": instant.isoformat()}
        case _:
            assert_never(leaf)


def cron(fields: Fields, _: AppRef | None) -> Cron:
    """Reads a TIME trigger whose expression can match.

    Raises:
        DecodeError: a field is missing or of the wrong kind.
        InvalidDefinitionError: a field of the expression is wrong, it never matches, or the zone is unknown.
    """
    leaf = Cron(
        fields.text("cronExpression"),
        fields.optional_text("timeZone") or "UTC",
        fields.optional_choice("dialect", Dialect) or Dialect.UNIX,
        fields.optional_choice("inGap", InGap),
        fields.optional_choice("inOverlap", InOverlap),
    )
    with anchored(fields.path, expression="cronExpression", zone="timeZone"):
        check_cron(leaf)
    return leaf


def every(fields: Fields, _: AppRef | None) -> Every:
    """Reads an EVERY trigger.

    Raises:
        DecodeError: a field is missing or of the wrong kind.
        InvalidDefinitionError: the interval is no duration, or too short.
    """
    interval = parse_duration(fields.text("interval"), fields.at("interval"))
    start = fields.optional_instant("start")
    with anchored(fields.path):
        return Every(interval, start)


def at(fields: Fields, _: AppRef | None) -> At:
    """Reads an AT trigger.

    Raises:
        DecodeError: the instant is missing, or names no offset.
    """
    return At(fields.instant("instant"))


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

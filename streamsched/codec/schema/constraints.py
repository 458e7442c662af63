"""Schemas of constraints (`codec.schedules.constraint`)."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.shape.schemas import (
    Definitions,
    Schema,
    anything,
    boolean,
    choice,
    constant,
    duration,
    integer,
    object_by_name,
    one_of,
    record,
    ref,
    text,
)
from streamsched.domain.constraints.constraint import ConcurrencyScope
from streamsched.domain.constraints.rate import RateScope

#: A time of day.
WALL: Final = "^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"
_WAIT: Final = {"waitUntilMet": boolean(about="Whether the job waits (default), or ends when it does not hold.")}
_NAME: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 255}


def _constraint(
    kind: str, required: dict[str, Schema], optional: dict[str, Schema] | None = None, **rules: Any
) -> Schema:
    return record({"type": constant(kind), **required}, {**(optional or {}), **_WAIT}, **rules)


def _duration_constraint(
    kind: str, millis: str, words: str, required: dict[str, Schema], optional: dict[str, Schema]
) -> Schema:
    """A constraint with one duration: in milliseconds, or as text."""
    ways = {millis: integer(900_000, least=1), words: duration()}
    one = [
        {"required": [own], "properties": {own: {"not": {"type": "null"}}, other: {"type": "null"}}}
        for own, other in ((words, millis), (millis, words))
    ]
    return _constraint(kind, required, {words: ways[words], millis: ways[millis], **optional}, anyOf=one)


_BAND: Final = one_of(
    integer(8),
    record({"enter": integer(8), "leave": integer(4)}),
    about="A threshold, or one to open and one to close.",
)

CONSTRAINTS: Final[Definitions] = {
    "Constraint": one_of(
        _constraint("CONCURRENCY", {"maxConcurrency": integer(1, least=1)}, {"of": choice(ConcurrencyScope)}),
        _duration_constraint("DELAY", "millisAfterTrigger", "delay", {}, {}),
        _duration_constraint("LAST_RUN", "millisSinceLastRun", "interval", {}, {}),
        _duration_constraint(
            "RATE",
            "perMillis",
            "per",
            {"maxRuns": integer(1, least=1)},
            {"burst": integer(1, least=1), "of": choice(RateScope), "group": text("warehouse", **_NAME)},
        ),
        _constraint(
            "TIME_RANGE",
            {"startTime": text("22:00", pattern=WALL), "endTime": text("06:00", pattern=WALL)},
            {"timeZone": text("Europe/Berlin"), "calendar": one_of(ref("Calendar"), text("exchange"))},
        ),
        _constraint(
            "GROUP",
            {"group": text("warehouse", **_NAME), "limit": integer(4, least=1)},
            {"weight": integer(1, least=1)},
        ),
        _constraint(
            "POOL",
            {"pool": text("nightly", **_NAME), "size": integer(8, least=1)},
            {"priority": integer(0, least=-1000, most=1000)},
        ),
        _constraint(
            "LOAD",
            {"cluster": text("main", **_NAME)},
            {"freeCores": _BAND, "freeMemory": _BAND, "running": _BAND, "startsPerReading": integer(1, least=1)},
        ),
        _constraint("PLUGIN", {"name": text("quota", **_NAME)}, {"config": object_by_name(anything(1), "limit")}),
        about="What a job waits for after its trigger.",
    )
}

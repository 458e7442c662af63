"""Schemas of schedules and their policies (`codec.schedules`)."""

from __future__ import annotations

from typing import Final

from streamsched.codec.schedules.policy import CATCH_UP, LATE, PAUSE_AFTER, POLICIES, RETRY
from streamsched.codec.schema.constraints import WALL
from streamsched.codec.schema.programs import OWNED
from streamsched.codec.shape.schemas import (
    NAMESPACE,
    SCHEDULE_NAME,
    Definitions,
    array,
    boolean,
    choice,
    constant,
    drop_members,
    duration,
    extend,
    instant,
    name,
    nullable,
    one_of,
    record,
    ref,
    text,
    texts,
)
from streamsched.domain.limits import MOST_PARTS
from streamsched.domain.schedules.deadline import DeadlineKind, OnMiss
from streamsched.domain.schedules.pause import PauseMode
from streamsched.domain.schedules.schedule import OnChange

_GIVEN: Final = {"not": {"type": "null"}}
_ABSENT: Final = {"type": "null"}

_DEFINED: Final = record(
    {
        "name": name("weekly", SCHEDULE_NAME),
        "program": one_of(
            name("join"),
            record({"programName": name("join")}, {"programType": text("WORKFLOW")}),
            about="The program of the same app that is started.",
        ),
        "trigger": ref("Trigger"),
    },
    {
        **OWNED,
        "description": text("joins the flights of a week"),
        "constraints": array(ref("Constraint"), maxItems=1000),
        "properties": texts(about="Arguments of its runs.", maxProperties=MOST_PARTS),
        "timeout": duration("12h", "How long a job waits for its constraints."),
    },
)
_DEFINITION: Final = extend(_DEFINED, POLICIES.body_schema())
#: A definition as it is written: all members but some that are the default.
WRITTEN: Final = {
    **_DEFINITION,
    "required": [each for each in _DEFINITION["properties"] if each not in POLICIES.sometimes],
}
#: A schedule as it is submitted: with options that are not part of its definition.
_SUBMITTED: Final = extend(
    _DEFINITION,
    record(
        {},
        {"enabled": boolean(), "onChange": choice(OnChange, "What becomes of its state when what it counts changes.")},
    ),
)

SCHEDULES: Final[Definitions] = {
    **{each.name: each.body_schema() for each in (RETRY, CATCH_UP, PAUSE_AFTER)},
    "Late": one_of(duration("15m"), LATE.body_schema()),
    "Deadline": record(
        {"type": choice(DeadlineKind)},
        {
            "within": duration("30m"),
            "at": text("06:00", pattern=WALL),
            "timeZone": text("Europe/Berlin"),
            "then": choice(OnMiss),
            "program": name("rescue"),
        },
        anyOf=[
            {"required": ["within"], "properties": {"within": _GIVEN, "at": _ABSENT, "timeZone": _ABSENT}},
            {"required": ["at"], "properties": {"at": _GIVEN, "within": _ABSENT}},
        ],
    ),
    "Schedule": {**_SUBMITTED, "description": "A schedule of an app."},
    "NamedSchedule": {**drop_members(_SUBMITTED, "name"), "description": "A schedule below its name."},
    "NewSchedule": {
        **extend(_SUBMITTED, record({"application": name("flights")})),
        "description": "A schedule by itself. Without `namespace` it is in `default`.",
    },
    "ChangedSchedule": {
        **drop_members(_SUBMITTED, "name"),
        "properties": {**_SUBMITTED["properties"], "name": nullable(name("weekly", SCHEDULE_NAME))},
        "description": "A schedule whose names are in the path.",
    },
    "Pause": record(
        {},
        {
            "mode": choice(PauseMode),
            "keep": boolean(),
            "until": one_of(instant(), duration("2h")),
            "note": text("disks are moved"),
        },
    ),
    "Enabled": constant("enabled"),
    "Namespace": name("default", NAMESPACE),
}

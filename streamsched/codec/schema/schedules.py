"""Schemas of schedules and their policies (`codec.schedules`)."""

from __future__ import annotations

from typing import Final

from streamsched.codec.schedules.deadline import DEADLINE
from streamsched.codec.schedules.pause import PAUSE
from streamsched.codec.schedules.policy import CATCH_UP, LATE, PAUSE_AFTER, POLICIES, RETRY
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
    name,
    nullable,
    one_of,
    record,
    ref,
    text,
    texts,
)
from streamsched.domain.limits import MOST_PARTS
from streamsched.domain.schedules.schedule import OnChange

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
    "Deadline": DEADLINE,
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
    "Pause": PAUSE,
    "Enabled": constant("enabled"),
    "Namespace": name("default", NAMESPACE),
}

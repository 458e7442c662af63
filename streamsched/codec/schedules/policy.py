"""The policies of a schedule as JSON fields: `overlap`, `misfire`, `onTimeout`, `consumption`, `maxDuration`, `retry`,
and `catchUp`, `late`, `pauseAfter` and `deadlines` when they are not the default.

They are fields of the schedule, both in native JSON and, as an extension, in CDAP's. A policy for late events may also
be a duration alone: to drop them.
"""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.schedules import deadline
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import ref
from streamsched.domain.events.lateness import Late
from streamsched.domain.json_value import Json
from streamsched.domain.schedules.catchup import CatchUp
from streamsched.domain.schedules.pause import PauseAfter
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.time.duration import parse_duration

RETRY: Final = JsonShape(
    Retry,
    shared=True,
    about={"attempts": About(3, least=1), "delay": About("30s"), "longest": About("1h")},
)
CATCH_UP: Final = JsonShape(
    CatchUp,
    shared=True,
    about={"window": About("6h"), "at_most": About(10, minimum=1), "spacing": About("30s")},
)
PAUSE_AFTER: Final = JsonShape(PauseAfter, shared=True, about={"failures": About(3, least=1), "lasting": About("1h")})
LATE: Final = JsonShape(Late)


def read_late(value: Json, path: str = "$") -> Late:
    """A policy for late events.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    if isinstance(value, str):
        with prefix_errors(path, after=""):
            return Late(parse_duration(value, "$"))
    return LATE.read(value, path)


POLICIES: Final = JsonShape(
    Schedule,
    outside=("ref", "program", "trigger", "constraints", "properties", "description", "timeout"),
    sometimes=("catchUp", "late", "pauseAfter", "deadlines"),
    about={
        "overlap": About(text="What a new job does while others wait or run."),
        "misfire": About(text="Which missed ticks, more than a minute late, are made up for."),
        "max_duration": About("6h", "How long a run may take."),
        "retry": About(shape=RETRY),
        "catch_up": About(shape=CATCH_UP),
        "late": About(shape=ByHand(read_late, LATE.write, ref("Late"))),
        "pause_after": About(shape=PAUSE_AFTER),
        "deadlines": About(shape=ByHand(deadline.from_json, deadline.to_json, ref("Deadline")), maxItems=1000),
    },
)


def to_json(schedule: Schedule) -> dict[str, Any]:
    """All policies, in a fixed order."""
    return POLICIES.write(schedule)


def read(fields: Fields) -> dict[str, Any]:
    """The policies given, by the names of `Schedule`'s attributes.

    Raises:
        DecodeError: a value is invalid; the path names it.
        InvalidDefinitionError: a duration is invalid, or not positive.
    """
    fields.ignore(*POLICIES.names)
    return POLICIES.read_fields(fields.raw(), fields.path)

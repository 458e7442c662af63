"""The policies of a schedule as JSON fields: `overlap`, `misfire`, `onTimeout`, `consumption`, `maxDuration`, `retry`,
and `catchUp`, `late`, `pauseAfter` and `deadlines` when they are not the default.

They are fields of the schedule, both in native JSON and, as an extension, in CDAP's.
"""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.reading import Fields
from streamsched.codec.schedules import catchup, deadline, lateness, pause, retry
from streamsched.domain.schedules.catchup import UNBOUNDED
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Misfire, OnTimeout, Schedule
from streamsched.domain.time.duration import duration_text
from streamsched.domain.triggers.consumption import Consumption


def to_json(schedule: Schedule) -> dict[str, Any]:
    """All policies, in a fixed order."""
    return {
        "overlap": schedule.overlap.value,
        "misfire": schedule.misfire.value,
        "onTimeout": schedule.on_timeout.value,
        "consumption": schedule.consumption.value,
        "maxDuration": None if schedule.max_duration is None else duration_text(schedule.max_duration),
        "retry": None if schedule.retry is None else retry.to_json(schedule.retry),
        **({} if schedule.catch_up == UNBOUNDED else {"catchUp": catchup.to_json(schedule.catch_up)}),
        **({} if schedule.late is None else {"late": lateness.to_json(schedule.late)}),
        **({} if schedule.pause_after is None else {"pauseAfter": pause.after_to_json(schedule.pause_after)}),
        **({"deadlines": [deadline.to_json(each) for each in schedule.deadlines]} if schedule.deadlines else {}),
    }


def read(fields: Fields) -> dict[str, Any]:
    """The policies given, by the names of `Schedule`'s attributes.

    Raises:
        DecodeError: a value is invalid; the path names it.
        InvalidDefinitionError: a duration is invalid, or not positive.
    """
    late = fields.optional_value("late")
    given = {
        "overlap": fields.optional_choice("overlap", Overlap),
        "misfire": fields.optional_choice("misfire", Misfire),
        "on_timeout": fields.optional_choice("onTimeout", OnTimeout),
        "consumption": fields.optional_choice("consumption", Consumption),
        "max_duration": fields.optional_duration("maxDuration"),
        "retry": retry.from_json(inner) if (inner := fields.optional_object("retry")) is not None else None,
        "catch_up": catchup.from_json(inner) if (inner := fields.optional_object("catchUp")) is not None else None,
        "late": None if late is None else lateness.from_json(late, fields.path_of("late")),
        "pause_after": pause.after_from_json(inner) if (inner := fields.optional_object("pauseAfter")) else None,
        "deadlines": tuple(deadline.from_json(each, path) for each, path in fields.optional_list("deadlines")) or None,
    }
    return {name: value for name, value in given.items() if value is not None}

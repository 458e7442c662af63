"""CDAP's `ScheduleSpecification`: the form used before 4.2, and still returned for `?format=spec`.

    {"scheduleType": "TIME", "program", "properties",
     "schedule": {"name", "description", "cronEntry", "runConstraints"}}
    {"scheduleType": "STREAM", "program", "properties",
     "schedule": {"name", "description", "streamName", "dataTriggerMB", "runConstraints"}}

`runConstraints` is `{"maxConcurrentRuns": n}`, or `{}` for none. Only schedules with a single time or stream trigger
have such a form; it contains the first concurrency constraint, but no other constraints and no timeout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.dialects.cdap.codec import schedule as details
from streamsched.dialects.cdap.codec import trigger as triggers
from streamsched.dialects.cdap.codec.primitive import plain
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Schedule


def is_specification(obj: object) -> bool:
    """Whether an object is of this form and not a `ScheduleDetail`."""
    return isinstance(obj, Mapping) and "trigger" not in obj and ("scheduleType" in obj or "schedule" in obj)


def to_json(schedule: Schedule) -> dict[str, Any] | None:
    """The specification, or None when the trigger has none."""
    detail = details.to_json(schedule)
    own = _own_properties(schedule, detail["trigger"])
    if own is None:
        return None
    limits = (
        each["maxConcurrency"] for each in detail["constraints"] if each["type"] == "CONCURRENCY" and "of" not in each
    )
    limit = next(limits, None)
    return {
        "scheduleType": "STREAM" if "streamName" in own else "TIME",
        "schedule": {
            "name": schedule.ref.name,
            "description": schedule.description,
            **own,
            "runConstraints": {} if limit is None else {"maxConcurrentRuns": limit},
        },
        "program": detail["program"],
        "properties": detail["properties"],
    }


def _own_properties(schedule: Schedule, trigger: Mapping[str, Any]) -> dict[str, Any] | None:
    match trigger:
        case {"type": "TIME", "cronExpression": expression, **others} if not others.keys() - {"unix"}:
            return {"cronEntry": expression}
        case {"type": "STREAM_SIZE", "streamId": {"stream": name, "namespace": namespace}, "triggerMB": amount} if (
            namespace == schedule.ref.namespace
        ):
            return {"streamName": name, "dataTriggerMB": amount}
        case _:
            return None


def from_json(obj: object, ref: ScheduleRef, path: str = "$") -> Schedule:
    """Decodes the schedule named `ref`; `scheduleType` defaults to TIME.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown, or names another schedule; the path names it.
        InvalidDefinitionError: the schedule could never start its program.
    """
    fields = Fields(obj, path)
    kind = (fields.optional_text("scheduleType") or "TIME").upper()
    fields.ignore("program", "properties")
    inner = Fields(plain(fields.required_value("schedule")), fields.path_of("schedule"))
    details.check_name(inner, ref)
    match kind:
        case "TIME":
            trigger = {"type": kind, "cronExpression": inner.text("cronEntry")}
        case "STREAM":
            name, amount = inner.text("streamName"), inner.integer("dataTriggerMB")
            stream = {"stream": name, "namespace": ref.namespace}
            trigger = {"type": "STREAM_SIZE", "streamId": stream, "triggerMB": amount}
        case _:
            fields.fail("scheduleType", f"must be one of TIME, STREAM but is {format_value(kind)}")
    with prefix_errors(inner.path, cronExpression="cronEntry", streamId="streamName", triggerMB="dataTriggerMB"):
        triggers.from_json(trigger, app=ref.owner)
    limit = _limit(inner)
    description = inner.optional_text("description")
    inner.check_all_read()
    fields.check_all_read()
    constraints = [] if limit is None else [{"type": "CONCURRENCY", "maxConcurrency": limit}]
    detail = {"description": description, "trigger": trigger, "constraints": constraints}
    given = {name: fields.raw().get(name) for name in ("program", "properties")}
    return details.from_json({**given, **detail}, ref, path)


def _limit(fields: Fields) -> int | None:
    given = fields.optional_value("runConstraints")
    if given is None:
        return None
    inner = Fields(plain(given), fields.path_of("runConstraints"))
    limit = inner.optional_integer("maxConcurrentRuns", minimum=1)
    inner.check_all_read()
    return limit

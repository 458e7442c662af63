"""Whole schedules as CDAP's REST says them (`ScheduleDetail`), both ways.

    {"namespace", "application", "applicationVersion", "name", "description",
     "program": {"programName", "programType": "WORKFLOW"}, "properties", "trigger": `codec.cdap.trigger`,
     "constraints": [`codec.cdap.constraint`], "timeoutMillis", "status": "SCHEDULED" or "SUSPENDED", "lastUpdateTime"}

CDAP schedules workflows only, so what a schedule starts is called one here, whatever it is; SPARK is read as well.
What `timeoutMillis` means is in `codec.cdap.timeout`. Policies that CDAP does not know (`codec.policy`) stand beside
these fields where they are not our defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from streamsched.codec import policy
from streamsched.codec.cdap import constraint as constraints
from streamsched.codec.cdap import timeout as timeouts
from streamsched.codec.cdap import trigger as triggers
from streamsched.codec.cdap.trigger import VERSION
from streamsched.codec.reading import Fields, anchored, shown
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import Schedule
from streamsched.domain.trigger import Trigger

_MILLISECOND: Final = timedelta(milliseconds=1)
_SCHEDULABLE: Final = ("WORKFLOW", "SPARK")
_OTHER_PROGRAMS: Final = ("CUSTOM_ACTION", "FLOW", "MAPREDUCE", "SERVICE", "WEBAPP", "WORKER")


def to_json(schedule: Schedule, *, enabled: bool | None = None, updated_at: datetime | None = None) -> dict[str, Any]:
    """The canonical `ScheduleDetail`, with `status` and `lastUpdateTime` (milliseconds) where they are given."""
    ref = schedule.ref
    detail: dict[str, Any] = {
        "namespace": ref.namespace,
        "application": ref.app,
        "applicationVersion": VERSION,
        "name": ref.name,
        "description": schedule.description,
        "program": {"programName": schedule.program.name, "programType": "WORKFLOW"},
        "properties": dict(schedule.properties),
        "trigger": triggers.to_json(timeouts.trigger_shown(schedule)),
        "constraints": [constraints.to_json(constraint) for constraint in schedule.constraints],
        **timeouts.to_json(schedule),
        **_policies_to_json(schedule),
    }
    if enabled is not None:
        detail["status"] = "SCHEDULED" if enabled else "SUSPENDED"
    if updated_at is not None:
        detail["lastUpdateTime"] = millis(updated_at)
    return detail


def from_json(obj: object, ref: ScheduleRef, path: str = "$") -> Schedule:
    """Reads the schedule that shall be called `ref`. Only `program` and `trigger` must be there.

    Namespace, application and its version, status and times that the body names are CDAP's to say and say nothing here.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown, or names another schedule; the path names it.
        InvalidDefinitionError: the schedule could never start its program, or contradicts itself.
    """
    fields = Fields(obj, path)
    fields.ignore("namespace", "application", "applicationVersion", "status", "scheduleStatus", "lastUpdateTime")
    check_name(fields, ref)
    program = _program(fields, ref.owner)
    limits = tuple(constraints.from_json(each, where) for each, where in fields.optional_list("constraints"))
    properties = fields.texts("properties")
    description = fields.optional_text("description") or ""
    trigger, timeout = timeouts.read(fields, _trigger(fields, ref.owner))
    policies = policy.read(fields)
    fields.done()
    with anchored(path):
        return Schedule(
            ref,
            program,
            trigger,
            constraints=limits,
            properties=properties,
            description=description,
            timeout=timeout,
            **policies,
        )


def changed(schedule: Schedule, obj: object, path: str = "$") -> Schedule:
    """The schedule after an update: a field that is left out or null stays as it is, one that is given is replaced as
    a whole. So `{}` changes nothing, nor does what `to_json` said.

    Raises:
        DecodeError, InvalidDefinitionError: as `from_json`; or another program is named, which an update cannot do.
    """
    fields = Fields(obj, path)
    check_name(fields, schedule.ref)
    if fields.has("program"):
        program = _program(fields, schedule.ref.owner)
        if program != schedule.program:
            fields.fail(
                "program",
                f"Must update the schedule '{schedule.ref}' with the same program as '{schedule.program}'. "
                "To change the program in a schedule, please delete the schedule and create a new one.",
            )
    before = to_json(schedule)
    given = {name: value for name, value in fields.raw().items() if value is not None}
    if given.get("timeoutMillis", before["timeoutMillis"]) != before["timeoutMillis"]:
        before.pop("timeout", None)
    return from_json({**before, **given}, schedule.ref, path)


def millis(instant: datetime) -> int:
    """An instant as CDAP says it: milliseconds since 1970 (UTC), those before it cut off."""
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def check_name(fields: Fields, ref: ScheduleRef) -> None:
    """Refuses a `name` that is not the schedule's; none is as good.

    Raises:
        DecodeError: in CDAP's words.
    """
    name = fields.optional_text("name")
    if name is not None and name != ref.name:
        fields.fail(
            "name",
            f"Schedule name in the body of the request ({name}) does not match the schedule name in the path "
            f"parameter ({ref.name})",
        )


def _program(fields: Fields, app: AppRef) -> ProgramRef:
    if not fields.has("program"):
        fields.fail("program", "No program was specified for the schedule")
    inner = fields.object("program")
    if not inner.has("programType"):
        inner.fail("programType", "No program type was specified for the schedule")
    given = inner.text("programType")
    if not inner.has("programName"):
        inner.fail("programName", "No program name was specified for the schedule")
    name = inner.text("programName")
    if given.upper() in _OTHER_PROGRAMS:
        inner.fail("programType", f"Cannot schedule program {name} of type {given}: Only workflows can be scheduled")
    if given.upper() not in _SCHEDULABLE:
        inner.fail("programType", f"must be one of {', '.join(_SCHEDULABLE)} but is {shown(given)}")
    inner.done()
    with anchored(inner.at("programName")):
        return ProgramRef(app.namespace, app.app, name)


def _trigger(fields: Fields, app: AppRef) -> Trigger:
    if not fields.has("trigger"):
        fields.fail("trigger", "No trigger was specified for the schedule")
    return triggers.from_json(fields.required("trigger"), fields.at("trigger"), app=app)


def _policies_to_json(schedule: Schedule) -> Mapping[str, Any]:
    """Those that are not our defaults."""
    defaults = policy.to_json(Schedule(schedule.ref, schedule.program, schedule.trigger))
    return {name: value for name, value in policy.to_json(schedule).items() if value != defaults.get(name)}

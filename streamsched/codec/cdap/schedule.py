"""Whole schedules as CDAP's REST says them (`ScheduleDetail`), both ways.

    {"namespace", "application", "applicationVersion", "name", "description",
     "program": {"programName", "programType": "WORKFLOW"}, "properties", "trigger": `codec.cdap.trigger`,
     "constraints": [`codec.cdap.constraint`], "timeoutMillis", "status": "SCHEDULED" or "SUSPENDED", "lastUpdateTime"}

CDAP schedules workflows only, so what a schedule starts is called one here, whatever it is; SPARK is read as well.
`timeoutMillis` is a day where it is left out, and a schedule without any limit says the largest number there is.
Policies that CDAP does not know (`codec.policy`) stand beside these fields where they are not our defaults, and
`timeout` (a duration, or `never`) where `timeoutMillis` cannot say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from streamsched.codec import policy
from streamsched.codec.cdap import constraint as constraints
from streamsched.codec.cdap import trigger as triggers
from streamsched.codec.cdap.trigger import VERSION
from streamsched.codec.reading import Fields, anchored, shown
from streamsched.domain.duration import duration_text, parse_duration
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import Schedule
from streamsched.domain.trigger import Trigger

#: How long accumulation, and then the wait on constraints, may take when `timeoutMillis` is left out.
TIMEOUT: Final = timedelta(days=1)
#: `timeoutMillis` of a schedule that waits for ever: the largest number CDAP reads. Any wait too long to count is one.
FOREVER: Final = 2**63 - 1

_MILLISECOND: Final = timedelta(milliseconds=1)
_NEVER: Final = "never"
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
        "trigger": triggers.to_json(schedule.trigger),
        "constraints": [constraints.to_json(constraint) for constraint in schedule.constraints],
        **_timeout_to_json(schedule.timeout),
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
    trigger = _trigger(fields, ref.owner)
    limits = tuple(constraints.from_json(each, where) for each, where in fields.optional_list("constraints"))
    properties = fields.texts("properties")
    description = fields.optional_text("description") or ""
    timeout = _timeout(fields)
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
    shown_before = to_json(schedule)
    given = {name: value for name, value in fields.raw().items() if value is not None}
    if given.get("timeoutMillis", shown_before["timeoutMillis"]) != shown_before["timeoutMillis"]:
        shown_before.pop("timeout", None)
    return from_json({**shown_before, **given}, schedule.ref, path)


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


def _timeout_to_json(timeout: timedelta | None) -> dict[str, Any]:
    if timeout is None:
        return {"timeoutMillis": FOREVER}
    if timeout % _MILLISECOND:
        return {"timeoutMillis": max(1, timeout // _MILLISECOND), "timeout": duration_text(timeout)}
    return {"timeoutMillis": timeout // _MILLISECOND}


def _timeout(fields: Fields) -> timedelta | None:
    amount = fields.optional_integer("timeoutMillis", minimum=1)
    said = fields.optional_text("timeout")
    if said is not None:
        return None if said == _NEVER else parse_duration(said, fields.at("timeout"))
    if amount is None:
        return TIMEOUT
    return None if amount > timedelta.max // _MILLISECOND else amount * _MILLISECOND


def _policies_to_json(schedule: Schedule) -> Mapping[str, Any]:
    """Those that are not our defaults."""
    defaults = policy.to_json(Schedule(schedule.ref, schedule.program, schedule.trigger))
    return {name: value for name, value in policy.to_json(schedule).items() if value != defaults.get(name)}

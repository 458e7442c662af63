"""Schedules in CDAP's REST dialect (`ScheduleDetail`), both ways.

    {"namespace", "application", "applicationVersion", "name", "description",
     "program": {"programName", "programType": "WORKFLOW"}, "properties", "trigger": `codec.trigger`,
     "constraints": [`codec.constraint`], "timeoutMillis", "status": "SCHEDULED" or "SUSPENDED", "lastUpdateTime"}

CDAP schedules only workflows, so every program is shown as one; SPARK is accepted too. `codec.timeout` defines
`timeoutMillis`. Properties that are numbers or booleans become texts, and numbers may be texts (`codec.primitive`), as
Gson makes them. Policies that CDAP does not have (`codec.schedules.policy`) are further fields, written when they
differ from the defaults of this dialect: the native ones, except that `overlap` is `queue` as in CDAP.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.codec.json.scalar import texts
from streamsched.codec.schedules import policy
from streamsched.dialects.cdap.codec import constraint as constraints
from streamsched.dialects.cdap.codec import timeout as timeouts
from streamsched.dialects.cdap.codec import trigger as triggers
from streamsched.dialects.cdap.codec.primitive import plain
from streamsched.dialects.cdap.codec.trigger import VERSION
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import Trigger

#: The default of `overlap`: CDAP launches a job for each satisfaction.
_OVERLAP: Final = Overlap.QUEUE
_MILLISECOND: Final = timedelta(milliseconds=1)
_SCHEDULABLE: Final = ("WORKFLOW", "SPARK")
_OTHER_PROGRAMS: Final = ("CUSTOM_ACTION", "FLOW", "MAPREDUCE", "SERVICE", "WEBAPP", "WORKER")


def to_json(schedule: Schedule, *, enabled: bool | None = None, updated_at: datetime | None = None) -> dict[str, Any]:
    """The canonical `ScheduleDetail`, with `status` and `lastUpdateTime` (milliseconds) when given."""
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
    """Decodes the schedule named `ref`. Only `program` and `trigger` are required.

    Namespace, application and its version, status and times in the body are ignored.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown, or names another schedule; the path names it.
        InvalidDefinitionError: the schedule could never start its program, or contradicts itself.
    """
    fields = Fields(plain(obj), path)
    fields.ignore("namespace", "application", "applicationVersion", "status", "scheduleStatus", "lastUpdateTime")
    check_name(fields, ref)
    program = _program(fields, ref.owner)
    limits = tuple(constraints.from_json(each, where) for each, where in fields.optional_list("constraints"))
    given = fields.optional_value("properties")
    properties = {} if given is None else texts(given, fields.path_of("properties"))
    description = fields.optional_text("description") or ""
    trigger, timeout = timeouts.read(fields, _trigger(fields, ref.owner))
    policies: dict[str, Any] = {"overlap": _OVERLAP, **policy.read(fields)}
    fields.check_all_read()
    with prefix_errors(path):
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


def change_schedule(schedule: Schedule, obj: object, path: str = "$") -> Schedule:
    """The schedule after an update: missing and null fields keep their values, given ones are replaced as a whole. So
    `{}` changes nothing, and neither does the output of `to_json`.

    Raises:
        DecodeError, InvalidDefinitionError: as `from_json`; or another program is named.
    """
    fields = Fields(plain(obj), path)
    check_name(fields, schedule.ref)
    if fields.has("program"):
        program = _program(fields, schedule.ref.owner, schedule.program)
        if program != schedule.program:
            fields.fail(
                "program",
                f"Must update the schedule '{schedule.ref}' with the same program as '{schedule.program}'. "
                "To change the program in a schedule, please delete the schedule and create a new one.",
            )
    before = to_json(schedule)
    given = {name: value for name, value in fields.raw().items() if value is not None and name != "program"}
    if given.get("timeoutMillis", before["timeoutMillis"]) != before["timeoutMillis"]:
        before.pop("timeout", None)
    return from_json({**before, **given}, schedule.ref, path)


def millis(instant: datetime) -> int:
    """An instant in CDAP's form: whole milliseconds since 1970 (UTC), rounded down."""
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def check_name(fields: Fields, ref: ScheduleRef) -> None:
    """Refuses a `name` that is not the schedule's; it may be missing.

    Raises:
        DecodeError: with CDAP's message.
    """
    name = fields.optional_text("name")
    if name is not None and name != ref.name:
        fields.fail(
            "name",
            f"Schedule name in the body of the request ({name}) does not match the schedule name in the path "
            f"parameter ({ref.name})",
        )


def _program(fields: Fields, app: AppRef, known: ProgramRef | None = None) -> ProgramRef:
    """The program; in an update (`known`) missing name and type keep their values."""
    if not fields.has("program"):
        fields.fail("program", "No program was specified for the schedule")
    inner = fields.object("program")
    if not inner.has("programType") and known is None:
        inner.fail("programType", "No program type was specified for the schedule")
    given = inner.optional_text("programType") or _SCHEDULABLE[0]
    if not inner.has("programName") and known is None:
        inner.fail("programName", "No program name was specified for the schedule")
    name = inner.optional_text("programName") or ("" if known is None else known.name)
    if given.upper() in _OTHER_PROGRAMS:
        inner.fail("programType", f"Cannot schedule program {name} of type {given}: Only workflows can be scheduled")
    if given.upper() not in _SCHEDULABLE:
        inner.fail("programType", f"must be one of {', '.join(_SCHEDULABLE)} but is {format_value(given)}")
    inner.check_all_read()
    with prefix_errors(inner.path_of("programName")):
        return ProgramRef(app.namespace, app.app, name)


def _trigger(fields: Fields, app: AppRef) -> Trigger:
    if not fields.has("trigger"):
        fields.fail("trigger", "No trigger was specified for the schedule")
    return triggers.from_json(fields.required_value("trigger"), fields.path_of("trigger"), app=app)


def _policies_to_json(schedule: Schedule) -> Mapping[str, Any]:
    """The policies that differ from the defaults of this dialect."""
    defaults = policy.to_json(Schedule(schedule.ref, schedule.program, schedule.trigger, overlap=_OVERLAP))
    return {name: value for name, value in policy.to_json(schedule).items() if value != defaults.get(name)}

"""Programs, schedules and apps as native JSON; triggers and constraints inside have CDAP's shape.

    {"namespace": "default", "application": "flights",
     "programs": [{"name": "join", "type": "spark", "main": "join.py"},
                  {"name": "tidy", "type": "bash", "command": "rm -rf scratch"},
                  {"name": "train", "type": "python", "target": "models:train"},
                  {"name": "tell", "type": "http", "url": "https://…", "method": "POST", "body": "{day} is there"},
                  {"name": "say", "type": "publish", "event": "approved", "attributes": {"day": "{day}"}},
                  {"name": "mail", "type": "enqueue", "queue": "mail", "lane": "{key.customer}", "after": "10m"}],
     "schedules": [{"name": "weekly", "program": "join", "trigger": {…}, "constraints": [{…}], "enabled": true}]}

With `"calendars": {"exchange": {…}}` (`codec.triggers.calendar`) triggers and constraints may refer to it by
`"calendar": "exchange"`; the days are copied when the app is deployed.

Without `distinct`, a PARTITION or TOTAL counts each partition once in a submitted definition (`app_from_json`,
`submitted_schedule_from_json`), and every commit in a stored one (`schedule_from_json`), which predates the field.
It is always written.

With `"expectations": [{…}]` (`codec.schedules.expectation`) the app says what must be there by which time, with
`"onFailure": [{…}]` (`codec.schedules.recipient`) who is notified.

Programs, schedules and expectations may also be an object from name to definition. Inside an app, `namespace` and
`application` are optional; when given they must be the app's. Durations are texts such as `2h30m`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar, assert_never

import orjson

from streamsched.codec.graph.app_tasks import app_tasks_from_json
from streamsched.codec.graph.arrival import ArrivalReader, arrival_job_from_json, arrival_job_to_json
from streamsched.codec.graph.task import task_to_json
from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.codec.json.secret import optional_template, templates
from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.codec.schedules import policy
from streamsched.codec.schedules.expectation import expectation_from_json, expectation_to_json
from streamsched.codec.schedules.output import outputs_from_json, outputs_to_json
from streamsched.codec.schedules.process_job import (
    bash_from_json,
    process_job_to_json,
    python_from_json,
    spark_from_json,
)
from streamsched.codec.schedules.recipient import recipient_from_json, recipient_to_json
from streamsched.codec.triggers import calendar as calendars
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.limits import check_most
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, EventName, ProgramRef, ScheduleRef, check_namespace
from streamsched.domain.schedules.app import MOST_IN_APP, AppDefinition
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.schedule import (
    EnqueueJob,
    Executable,
    HttpJob,
    OnChange,
    Program,
    PublishJob,
    Schedule,
    usual_constraints,
)
from streamsched.domain.time.duration import duration_text

_R = TypeVar("_R", ProgramRef, ScheduleRef)


def executable_to_json(executable: Executable) -> dict[str, Any]:
    """The canonical JSON of a program's executable."""
    match executable:
        case SparkJob() | BashJob() | PythonJob():
            return process_job_to_json(executable)
        case HttpJob() as job:
            body = {} if job.body is None else {"body": job.body}
            timeout = duration_text(job.timeout)
            return {
                "type": "http",
                "url": job.url,
                "method": job.method,
                "headers": dict(job.headers),
                "timeout": timeout,
                **body,
            }
        case ArrivalJob() as job:
            return {"type": "publish", **arrival_job_to_json(job)}
        case PublishJob(event=event, attributes=attributes):
            return {"type": "publish", "event": str(event), "attributes": dict(attributes)}
        case EnqueueJob(queue=queue, lane=lane, key=key, after=after, data=data):
            given = {"lane": lane or None, "key": key or None, "after": duration_text(after) if after else None}
            given |= {"data": data}
            return {
                "type": "enqueue",
                "queue": queue,
                **{name: value for name, value in given.items() if value is not None},
            }
        case _:
            assert_never(executable)


def program_to_json(program: Program) -> dict[str, Any]:
    """The canonical JSON of a program; `defaults` are its default arguments."""
    return {
        **_name_fields(program.ref),
        **executable_to_json(program.executable),
        "defaults": dict(program.arguments),
        **outputs_to_json(program),
    }


def program_from_json(obj: object, path: str = "$", *, app: AppRef | None = None) -> Program:
    """Decodes a program; namespace and application default to `app`.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
    """
    fields = Fields(obj, path)
    ref = _ref(fields, ProgramRef, app)
    executable, defaults = _read_executable(fields, ref.namespace), fields.texts("defaults")
    outputs, done = outputs_from_json(fields, ref.namespace), fields.optional_boolean("done_when_committed")
    fields.check_all_read()
    with prefix_errors(path):
        return Program(ref, executable, defaults, outputs, done is True)


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    """The canonical JSON of a schedule: equal schedules give equal JSON."""
    return {
        **_name_fields(schedule.ref),
        "description": schedule.description,
        "program": schedule.program.name,
        "trigger": trigger_codec.to_json(schedule.trigger, explicit=True),
        "constraints": [constraint_codec.to_json(constraint) for constraint in schedule.constraints],
        "properties": dict(schedule.properties),
        "timeout": None if schedule.timeout is None else duration_text(schedule.timeout),
        **policy.to_json(schedule),
    }


def schedule_from_json(obj: object, path: str = "$", *, app: AppRef | None = None) -> Schedule:
    """Decodes a stored schedule; namespace and application default to `app`.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the schedule could never start its program, or contradicts itself.
    """
    fields = Fields(obj, path)
    schedule = _schedule(fields, app, distinct=False)
    fields.check_all_read()
    return schedule


class Submitted(NamedTuple):
    """A schedule as submitted by a user.

    Attributes:
        enabled: whether it is enabled on creation (`enabled`, by default true).
        keeps: whether it keeps compatible state when changed (`onChange`, by default `reset`).
    """

    schedule: Schedule
    enabled: bool
    keeps: bool


def submitted_schedule_from_json(obj: object, path: str = "$", *, app: AppRef | None = None) -> Submitted:
    """Decodes a submitted schedule with the options that are not part of its definition.

    Raises:
        DecodeError, InvalidDefinitionError: as `schedule_from_json`.
    """
    fields = Fields(obj, path)
    enabled = fields.optional_boolean("enabled")
    on_change = fields.optional_choice("onChange", OnChange)
    schedule = _schedule(fields, app, distinct=True)
    fields.check_all_read()
    return Submitted(schedule, enabled is not False, on_change is OnChange.KEEP)


def app_to_json(app: AppDefinition) -> dict[str, Any]:
    """The canonical JSON of an app, in the order of its definition."""
    return {
        "namespace": app.ref.namespace,
        "application": app.ref.app,
        "programs": [program_to_json(program) for program in app.programs],
        "schedules": [
            {
                **schedule_to_json(schedule),
                "enabled": schedule.ref.name in app.enabled,
                **({"onChange": OnChange.KEEP.value} if schedule.ref.name in app.keeping else {}),
            }
            for schedule in app.schedules
        ],
        **({"tasks": {task.name: task_to_json(task) for task in app.tasks}} if app.tasks else {}),
        **({"expectations": [expectation_to_json(each) for each in app.expectations]} if app.expectations else {}),
        **({"onFailure": [recipient_to_json(each) for each in app.on_failure]} if app.on_failure else {}),
    }


def app_from_json(obj: object, path: str = "$") -> AppDefinition:
    """Decodes an app.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: a definition could never hold, or two contradict each other.
    """
    fields = Fields(obj, path)
    name = fields.text("application")
    namespace = fields.optional_text("namespace") or DEFAULT_NAMESPACE
    with prefix_errors(fields.path_of("namespace")):
        check_namespace(namespace)
    with prefix_errors(fields.path_of("application")):
        ref = AppRef(namespace, name)
    for member, most in MOST_IN_APP.items():
        if isinstance(found := fields.optional_value(member), Mapping | list):
            check_most(len(found), most, fields.path_of(member), member)
    programs = tuple(program_from_json(each, where, app=ref) for each, where in _definitions(fields, "programs"))
    named = calendars.read_named(fields)
    listed = list(_definitions(fields, "schedules"))
    arriving = ArrivalReader(ref)
    tasks, implicit = app_tasks_from_json(
        fields.optional_value("tasks"), fields.path_of("tasks"), ref, [each for each, _ in listed], arriving
    )
    submitted = [
        submitted_schedule_from_json(_with_calendars(each, named, where), where, app=ref)
        for each, where in (*listed, *implicit)
    ]
    expectations = tuple(
        expectation_from_json(_with_calendars(each, named, where), where, app=ref)
        for each, where in _definitions(fields, "expectations")
    )
    on_failure = tuple(recipient_from_json(each, where) for each, where in fields.optional_list("onFailure"))
    fields.check_all_read()
    with prefix_errors(path):
        return AppDefinition(
            ref,
            (*programs, *(each.program for each in arriving.found.values())),
            (*(each.schedule for each in submitted), *(each.schedule for each in arriving.found.values())),
            frozenset((*(each.schedule.ref.name for each in submitted if each.enabled), *arriving.found)),
            frozenset(each.schedule.ref.name for each in submitted if each.keeps),
            (*tasks, *(each.task for each in arriving.found.values())),
            expectations=expectations,
            on_failure=on_failure,
        )


def _definitions(fields: Fields, name: str) -> Iterator[tuple[Json, str]]:
    """The definitions of a list, or of an object from name to definition."""
    if not isinstance(fields.optional_value(name), Mapping):
        yield from fields.optional_list(name)
        return
    inner = fields.object(name)
    for each in inner.names():
        definition = inner.object(each)
        if definition.has("name"):
            definition.fail("name", "is given already by the name of the field")
        yield {"name": each, **definition.raw()}, definition.path


def _with_calendars(definition: Json, named: Mapping[str, Json], path: str) -> Json:
    """A schedule with the calendars named in its trigger and constraints resolved, or an expectation with its own."""
    if not isinstance(definition, Mapping):
        return definition
    resolved = {
        name: calendars.resolve_member(name, definition[name], named, member_path(path, name))
        for name in ("trigger", "constraints", "calendar")
        if name in definition
    }
    return {**definition, **resolved}


def _schedule(fields: Fields, app: AppRef | None, *, distinct: bool) -> Schedule:
    ref = _ref(fields, ScheduleRef, app)
    owner = ref.owner
    timeout = fields.optional_duration("timeout")
    program = _started_program(fields, owner)
    trigger = trigger_codec.from_json(
        fields.required_value("trigger"), fields.path_of("trigger"), app=owner, distinct=distinct
    )
    constraints = tuple(constraint_codec.from_json(each, path) for each, path in fields.optional_list("constraints"))
    policies = policy.read(fields)
    properties = fields.texts("properties")
    with prefix_errors(fields.path):
        return Schedule(
            ref,
            program,
            trigger,
            constraints=usual_constraints(trigger, constraints) if distinct else constraints,
            properties=properties,
            description=fields.optional_text("description") or "",
            timeout=timeout,
            **policies,
        )


def _started_program(fields: Fields, owner: AppRef) -> ProgramRef:
    """The program a schedule starts: its name, or CDAP's `{"programName", "programType"}`."""
    if isinstance(fields.optional_value("program"), Mapping):
        inner = fields.object("program")
        inner.ignore("programType")
        name, path = inner.text("programName"), inner.path_of("programName")
        inner.check_all_read()
    else:
        name, path = fields.text("program"), fields.path_of("program")
    with prefix_errors(path):
        return ProgramRef(owner.namespace, owner.app, name)


def _read_executable(fields: Fields, namespace: str = DEFAULT_NAMESPACE) -> Executable:
    match fields.text("type").casefold():
        case "spark":
            return spark_from_json(fields)
        case "bash":
            return bash_from_json(fields)
        case "python":
            return python_from_json(fields)
        case "http":
            return _http(fields)
        case "publish" if fields.has("node"):
            return arrival_job_from_json(fields)
        case "publish":
            with prefix_errors(fields.path_of("event")):
                event = EventName.parse(fields.text("event"), namespace)
            return PublishJob(event, fields.texts("attributes"))
        case "enqueue":
            return _enqueue(fields)
        case other:
            return fields.fail(
                "type",
                f"unknown program type {format_value(other)} (known: bash, enqueue, http, publish, python, spark)",
            )


def _enqueue(fields: Fields) -> EnqueueJob:
    after, data = fields.optional_duration("after") or timedelta(0), fields.optional_value("data")
    if data is not None and not isinstance(data, str):
        data = orjson.dumps(data).decode()
    queue, lane, key = fields.text("queue"), fields.optional_text("lane"), fields.optional_text("key")
    with prefix_errors(fields.path):
        return EnqueueJob(queue, lane or "", key or "", after, data)


def _http(fields: Fields) -> HttpJob:
    plain = HttpJob("http://host")
    headers, body = templates(fields, "headers"), optional_template(fields, "body")
    url = optional_template(fields, "url") or fields.text("url")
    method = fields.optional_text("method") or plain.method
    timeout = fields.optional_duration("timeout")
    with prefix_errors(fields.path):
        return HttpJob(url, method.upper(), headers, body, plain.timeout if timeout is None else timeout)


def _name_fields(ref: ProgramRef | ScheduleRef) -> dict[str, str]:
    return {"namespace": ref.namespace, "application": ref.app, "name": ref.name}


def _ref(fields: Fields, kind_of: type[_R], app: AppRef | None) -> _R:
    name = fields.text("name")
    namespace = fields.optional_text("namespace") or (app.namespace if app else DEFAULT_NAMESPACE)
    application = fields.optional_text("application") or (app.app if app else fields.text("application"))
    if app and (namespace, application) != (app.namespace, app.app):
        fields.fail("application", f"is {namespace}.{application}, but this belongs to {app}")
    with prefix_errors(fields.path):
        return kind_of(namespace, application, name)

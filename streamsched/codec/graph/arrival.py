"""Events and clocks that nodes wait for beside parents, as fields of an entry of `depends_on`:

"partitions": "sales", or {"dataset": "sales", "by"?: [component, …], "match"?: …, any field of a PARTITION trigger}
"event": "landed", or {"event": "landed", "by"?: [component, …], "match"?: …, any field of an EVENT trigger}
"cron": "0 6 * * *", or {"cronExpression": "0 6 * * *", "format"?: {component: "%Y%m%d"}, "back"?: "1d", "timeZone"?: …,
  any field of a TIME trigger}

Each becomes a task of the graph, an arrival, with a schedule and a program of its name; equal ones are one task. A list
in a field of such a name is that of a component's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from streamsched.codec.events.native import dumps
from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.graph.job_template import DAY, ComponentKind, JobTemplate
from streamsched.domain.graph.task import ALL, KEY, TaskTemplate
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Misfire, Program, Schedule
from streamsched.domain.time.duration import duration_text, parse_duration
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import (
    Cron,
    CustomEvent,
    Partitions,
    Trigger,
    check_correlation,
    children,
    leaves,
)

#: The trigger's type and the field that a text stands for, by the field of an entry.
_FIELDS: Final = {
    "partitions": ({"type": "PARTITION", "numPartitions": 1}, "dataset"),
    "event": ({"type": "EVENT"}, "event"),
    "cron": ({"type": "TIME"}, "cronExpression"),
}
_DIGEST: Final = 8
#: An arrival can come before the tasks of a deployment are stored.
_RETRY: Final = Retry(20, delay=parse_duration("1s"), longest=parse_duration("1m"))


class Arrival(NamedTuple):
    """An arrival's task, with the schedule and the program that complete its nodes."""

    task: TaskTemplate
    program: Program
    schedule: Schedule


class ArrivalReader:
    """What the tasks of an app wait for beside parents; grows while they are read.

    Attributes:
        found: by the task's name.
    """

    def __init__(self, app: AppRef) -> None:
        self._app = app
        self.found: dict[str, Arrival] = {}

    def read(self, fields: Fields, child: JobTemplate) -> tuple[str, ...]:
        """The tasks for those fields of an entry that are conditions; reads these fields.

        Raises:
            DecodeError, InvalidDefinitionError: the path is that of the field.
        """
        return tuple(self._read(fields, name, child) for name in self.conditions(fields))

    @staticmethod
    def conditions(fields: Fields) -> tuple[str, ...]:
        """The fields of an entry that are conditions."""
        return tuple(name for name in _FIELDS if _is_condition(fields.optional_value(name)))

    def _read(self, fields: Fields, name: str, child: JobTemplate) -> str:
        fixed, subject = _FIELDS[name]
        given = fields.required_value(name)
        own = Fields({subject: given} if isinstance(given, str) else given, fields.path_of(name))
        by = own.text_list("by") if own.has("by") else None
        formats = own.texts("format")
        back = own.optional_duration("back") or timedelta(0)
        rest = {key: value for key, value in own.raw().items() if key not in ("by", "format", "back")}
        trigger = trigger_codec.from_json({**fixed, **rest}, own.path, app=self._app, distinct=True)
        if by is not None:
            with prefix_errors(own.path):
                trigger = Per(trigger, by)
        return self.add(trigger, child, own.path, formats=formats, back=back)

    def add(
        self,
        trigger: Trigger,
        child: JobTemplate,
        path: str,
        *,
        formats: Mapping[str, str] | None = None,
        back: timedelta | None = None,
    ) -> str:
        """The task whose nodes the trigger completes.

        Args:
            trigger: one that correlates by components; or events, whose key is all components of the child; or a cron.
            child: the template of the task that waits.
            formats, back: of a cron, as of `ArrivalJob`; default: the child's day.

        Raises:
            InvalidDefinitionError: it has no job id, or its name is that of another arrival.
        """
        with prefix_errors(path):
            if isinstance(trigger, Cron):
                chosen = dict(formats) if formats else _day_of(child)
                job = ArrivalJob(_template(child, chosen), chosen, trigger.zone, *((back,) if back else ()))
            elif formats or back:
                raise InvalidDefinitionError("$.format" if formats else "$.back", "is of a time, and events have none")
            else:
                trigger = trigger if check_correlation(trigger) else Per(trigger, child.components)
                check_correlation(trigger)
                trigger = trigger_codec.with_text_keys(trigger)  # its template says what a component is
                job = ArrivalJob(_template(child, _columns(trigger)))
            made = self._make_arrival(trigger, job)
        known = self.found.setdefault(made.task.name, made)
        if known != made:
            raise InvalidDefinitionError(
                path,
                f"has other kinds of components, or another delimiter, than '{known.task.arrives}' of another task",
            )
        return made.task.name

    def _make_arrival(self, trigger: Trigger, job: ArrivalJob) -> Arrival:
        name = _name(self._app, trigger, job)
        program = Program(ProgramRef(self._app.namespace, self._app.app, name), job)
        ref = ScheduleRef(self._app.namespace, self._app.app, name)
        text = _text(self._app, trigger)
        schedule = Schedule(
            ref,
            program.ref,
            trigger,
            description=text.replace(f" {KEY}", ""),
            overlap=Overlap.QUEUE,
            misfire=Misfire.ALL,
            retry=_RETRY,
        )
        return Arrival(TaskTemplate(name, job.template, arrives=text), program, schedule)


def _is_condition(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, str) and value != ALL.value)


def arrival_job_to_json(job: ArrivalJob) -> dict[str, Any]:
    """The fields of a program of type `publish` that completes a node."""
    kinds = {name: each.value for name, each in job.template.kinds.items()}
    return {
        "node": str(job.template),
        "delimiter": job.template.delimiter,
        **({"components": kinds} if kinds else {}),
        **({"format": dict(job.formats), "zone": job.zone} if job.formats else {}),
        **({"back": duration_text(job.back)} if job.back else {}),
    }


def arrival_job_from_json(fields: Fields) -> ArrivalJob:
    """Raises:
    DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    found = fields.optional_object("components")
    kinds = {} if found is None else {name: found.choice(name, ComponentKind) for name in found.names()}
    template = JobTemplate.parse(fields.text("node"), fields.text("delimiter"), kinds, fields.path_of("node"))
    formats, zone, back = fields.texts("format"), fields.optional_text("zone"), fields.optional_text("back")
    with prefix_errors(fields.path):
        return ArrivalJob(template, formats, zone or "UTC", parse_duration(back or "0s", "$.back"))


def _columns(trigger: Trigger) -> tuple[str, ...]:
    """The columns of the key, which all parts of the trigger share."""
    found = {per.by for per in _pers(trigger)}
    if len(found) > 1 or any(per.rolled_up_to or per.fanned_out_to for per in _pers(trigger)):
        raise InvalidDefinitionError("$.by", "has one list of columns, the same for all that is waited for together")
    return next(iter(found))


def _pers(trigger: Trigger) -> Iterable[Per]:
    if isinstance(trigger, Per):
        return [trigger]
    return [per for child in children(trigger) for per in _pers(child)]


def _template(child: JobTemplate, names: Iterable[str]) -> JobTemplate:
    """The components in the order of the child's, then the others."""
    own = list(names)
    ordered = [*(name for name in child.components if name in own), *(n for n in own if n not in child.components)]
    text = child.delimiter.join(f"{{{name}}}" for name in ordered)
    return JobTemplate.parse(text, child.delimiter, child.kinds, "$.by")


def _day_of(child: JobTemplate) -> dict[str, str]:
    days = [name for name, kind in child.kinds.items() if kind is ComponentKind.DATE]
    if len(days) != 1:
        raise InvalidDefinitionError(
            "$.format", f'is missing: name the component that is the time, as {{"{child.components[0]}": "%Y%m%d"}}'
        )
    return {days[0]: DAY}


def _name(app: AppRef, trigger: Trigger, job: ArrivalJob) -> str:
    """A function of the condition alone, so that what has arrived stays known when other tasks change."""
    columns = "-".join(job.template.components)
    match trigger:
        case Per(trigger=Partitions(dataset=of)) if (
            trigger == Per(Partitions(of), trigger.by) and of.namespace == app.namespace
        ):
            return f"partitions-{of.name}-{columns}"
        case Per(trigger=CustomEvent(name=of)) if (
            trigger == Per(CustomEvent(of), trigger.by) and of.namespace == app.namespace
        ):
            return f"event-{of.name}-{columns}"
        case _:
            condition = [
                trigger_codec.to_json(trigger, explicit=True),
                sorted(job.formats.items()),
                duration_text(job.back),
            ]
            digest = sha256(dumps(condition)).hexdigest()[:_DIGEST]
            return f"{'cron' if isinstance(trigger, Cron) else 'arrival'}-{columns}-{digest}"


def _text(app: AppRef, trigger: Trigger) -> str:
    found = list(leaves(trigger))
    match found:
        case [Partitions(dataset=of, count=1, match=match)]:
            name = of.name if of.namespace == app.namespace else str(of)
            return f"partition {KEY} of {name}{f' where {match}' if match else ''}"
        case [CustomEvent(name=of, times=1, match=match)]:
            name = of.name if of.namespace == app.namespace else str(of)
            return f"event {name} {KEY}{f' where {match}' if match else ''}"
        case _:
            return f"{trigger} {KEY}"

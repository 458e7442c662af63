"""The tasks in the JSON of an app: those of `codec.graph.task`, each with what it runs.

{name: {…, "program"?: name, "schedule"?: {"constraints"?: …, "retry"?: …, any field of a schedule but its trigger}}}

`program` is by default the program of the task's name. In the canonical form the task's schedule is in the app's list,
and both fields are absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamsched.codec.graph.arrival import ArrivalReader
from streamsched.codec.graph.task import task_from_json
from streamsched.codec.json.reading import Fields
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.graph.release import node_trigger
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.json_value import Json
from streamsched.domain.names import AppRef


def app_tasks_from_json(
    value: object, path: str, app: AppRef, schedules: Sequence[Json], arriving: ArrivalReader
) -> tuple[tuple[TaskTemplate, ...], list[tuple[Json, str]]]:
    """The tasks, and the JSON of the schedules of those that are not among `schedules`, with its path. What they wait
    for beside parents is added to `arriving`.

    Raises:
        DecodeError, InvalidDefinitionError: the path is that of the field.
    """
    if value is None:
        return (), []
    fields = Fields(value, path)
    listed = {name for each in schedules if isinstance(each, Mapping) and isinstance(name := each.get("name"), str)}
    tasks: list[TaskTemplate] = []
    implicit: list[tuple[Json, str]] = []
    for name in fields.names():
        own = fields.object(name)
        program, policies = own.optional_text("program"), own.optional_object("schedule")
        rest = {key: each for key, each in own.raw().items() if key not in ("program", "schedule")}
        task = task_from_json(name, Fields(rest, own.path), arriving)
        tasks.append(task)
        if name in listed:
            for given in ("program", "schedule"):
                if own.has(given):
                    own.fail(given, f"is given, but the app has a schedule '{name}' already")
            continue
        extra = {} if policies is None else dict(policies.raw())
        for fixed in ("name", "trigger", "program"):
            if policies is not None and policies.has(fixed):
                policies.fail(fixed, "is that of the task")
        trigger = trigger_codec.to_json(node_trigger(app, task))
        schedule = {"overlap": "queue", **extra, "name": name, "program": program or name, "trigger": trigger}
        implicit.append((schedule, own.path if policies is None else policies.path))
    return tuple(tasks), implicit

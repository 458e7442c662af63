"""The job of a node that is ready: an ordinary job of its task's schedule, with the parts of the job id as its key.

The schedule of a task waits for an event that nothing sends, so that its trigger never fires by itself, while its key
has the task's components: limits of a key, arguments and `per` of later schedules see them as columns.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Final

from streamsched.domain.graph.progress import GraphNode
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.submission import Submission, plain_key
from streamsched.domain.names import AppRef, EventName, ScheduleRef
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.named_key import named_key
from streamsched.domain.triggers.trigger import CustomEvent

#: Schedules and triggers of tasks that are kept for the next node.
_CACHED: Final = 1024
#: Arguments of a node's runs besides the parts of its job id, which have the names of the components, and those that
#: its task makes.
JOB_ID: Final = "job_id"
TASK: Final = "task"


@lru_cache(_CACHED)
def schedule_of(app: AppRef, task: str) -> ScheduleRef:
    """The schedule of a task: it has the task's name."""
    return ScheduleRef(app.namespace, app.app, task)


def node_trigger(app: AppRef, task: TaskTemplate) -> Per:
    """The trigger of a task's schedule."""
    return _trigger(app, task.name, task.template.components)


@lru_cache(_CACHED)
def _trigger(app: AppRef, task: str, components: tuple[str, ...]) -> Per:
    return Per(CustomEvent(EventName(app.namespace, f"node.{app.app}.{task}")), components)


def node_job_id(app: AppRef, node: GraphNode) -> str:
    """The id of the node's current job, a function of its task, job id and round."""
    token = plain_key(f"{node.id.job_id}-{node.round}")
    return f"{schedule_of(app, node.id.task)}.node-{token}"


def node_arguments(task: TaskTemplate, job_id: str) -> dict[str, str]:
    """The arguments of a node's run: those that its task makes, the parts of its job id, `job_id` and `task`.

    Raises:
        InvalidError: the job id does not fit the template, or there is no such time.
    """
    parts = task.template.parts(job_id)
    made = {name: each.value(task.template, parts) for name, each in task.arguments.items()}
    return {**made, **dict(zip(task.template.components, parts, strict=True)), JOB_ID: job_id, TASK: task.display_name}


def node_job(app: AppRef, task: TaskTemplate, node: GraphNode, *, generation: int, now: datetime) -> ReadyJob:
    """The node's current job. `generation`: of its schedule."""
    columns = dict(zip(task.template.components, task.template.parts(node.id.job_id), strict=True))
    arguments = node_arguments(task, node.id.job_id)
    submission = Submission(node_job_id(app, node), "", arguments, columns, node=node.id.job_id)
    key = named_key(node_trigger(app, task), columns)
    return ReadyJob(schedule_of(app, task.name), generation, 0, now, (), key, submission)

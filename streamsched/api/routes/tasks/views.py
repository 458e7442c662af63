"""Queues, lanes and tasks in answers: the shapes of what the store has of them."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import array, choice, ref
from streamsched.domain.tasks.why import LaneHead, TaskReason
from streamsched.store.tasks.queues import QueueRecord
from streamsched.store.tasks.registration import RegisteredTask
from streamsched.store.tasks.registry import LaneRecord, TaskRecord
from streamsched.wire.queues import QUEUE

_ID: Final = About("5f0c")
_KEY: Final = About("welcome")
_QUEUE: Final = About("mail")
_LANE: Final = About("customer-7")
_NUMBER: Final = About(0)

REASON: Final = JsonShape(TaskReason, about={"text": About("due in 5m")})
REGISTERED: Final = JsonShape(
    RegisteredTask,
    about={
        "task": About("5f0c", name="id"),
        "verdict": About(schema=choice(("made", "replaced", "started", "ended", "exists"))),
    },
)
TASK: Final = JsonShape(
    TaskRecord,
    "QueuedTask",
    outside=("options",),
    also=("recurrence", "retry"),
    about={
        **dict.fromkeys(("fired", "failures", "losses", "interruptions", "bytes"), _NUMBER),
        "id": _ID,
        "queue": _QUEUE,
        "lane": _LANE,
        "key": _KEY,
        "due_at": About(name="due"),
        "attempts": About(schema=array({"type": "object"})),
    },
)
TASK_PAGE: Final = TASK.page("tasks")
TASK_WITH_ENDS: Final = TASK.with_members("TaskWithEnds", ends=array(ref("QueuedTask")))
EXPLAINED_TASK: Final = TASK.with_members("ExplainedTask", reasons=array(REASON.answer_schema()))
_HEAD: Final = JsonShape(
    LaneHead, about={"task": About("5f0c", name="id"), "key": _KEY, "failures": _NUMBER, "losses": _NUMBER}
)
LANE: Final = JsonShape(
    LaneRecord,
    "Lane",
    about={
        "queue": _QUEUE,
        "name": _LANE,
        "partition": About(3),
        "waiting": About(name="tasks"),
        "head": About(shape=_HEAD),
        "reasons": About(shape=REASON),
    },
)
#: A task, or the end of one.
task_view: Final = TASK.write


def queue_view(found: QueueRecord) -> dict[str, Any]:
    """A queue with its policy and what is in it."""
    return QUEUE.answer_of(found.queue.policy, found.queue, found)

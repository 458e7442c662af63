"""Why a task or a lane waits: the reason and the earliest time it can change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.tasks.queue import TaskQueue, WorkerTarget
from streamsched.domain.tasks.task import TaskState
from streamsched.domain.time.instants import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHead:
    """The head of a lane.

    Attributes:
        next_at: when it may be started, or tried again (UTC).
        failures: attempts that failed.
        losses: deliveries whose worker was lost.
        error: of the last attempt; "" without one.
    """

    task: str
    key: str
    state: TaskState
    next_at: datetime
    failures: int
    error: str
    losses: int = 0


@dataclass(frozen=True, slots=True)
class TaskReason:
    """One reason for waiting, and the earliest time it can change (UTC); None: unknown."""

    text: str
    until: datetime | None = None


def waiting_reasons(
    queue: TaskQueue, head: LaneHead, *, in_flight: int, before: int, now: datetime, task: str | None = None
) -> tuple[TaskReason, ...]:
    """The reasons why the lane does not go on, or why `task` in it is not started, the nearest first. Never empty.

    `in_flight`: tasks of the queue that are in flight. `before`: tasks of the lane that go before `task`.
    """
    reasons: list[TaskReason] = []
    own = task is None or head.task == task
    if not own:
        more = f", {before - 1} more before it" if before > 1 else ""
        reasons.append(TaskReason(f"its lane is at task '{head.key}'{more}"))
    if head.state is TaskState.IN_FLIGHT:
        tries = f", attempt {head.failures + 1}" if head.failures else ""
        return (*reasons, TaskReason(f"{_subject(own, head)} is in flight{tries}"))
    if head.next_at > now:
        if head.state is TaskState.RETRYING:
            why = f": {head.error}" if head.error else ""
            again = f"{_subject(own, head)}{_tries(head)} is tried again at {clock(head.next_at)}{why}"
            reasons.append(TaskReason(again, head.next_at))
        else:
            reasons.append(TaskReason(f"{_subject(own, head)} is due at {clock(head.next_at)}", head.next_at))
    if queue.paused:
        reasons.append(TaskReason(f"queue '{queue.name}' is paused"))
    most = queue.policy.max_in_flight
    if most is not None and in_flight >= most:
        reasons.append(TaskReason(f"{in_flight} tasks of queue '{queue.name}' are in flight, the most it allows"))
    if head.next_at <= now and not queue.paused:
        if isinstance(queue.policy.target, WorkerTarget):
            reasons.append(TaskReason("it is due; it goes as soon as a worker of the queue has room", now))
        else:
            reasons.append(TaskReason("it is due; it goes when its owner comes to it", now))
    return tuple(reasons)


def _tries(head: LaneHead) -> str:
    """What happened to the head so far."""
    failed = f"failed {_times(head.failures)}" if head.failures else ""
    lost = f"lost its worker {_times(head.losses)}" if head.losses else ""
    past = ", ".join(each for each in (failed, lost) if each)
    return f" {past} and" if past else ""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _subject(own: bool, head: LaneHead) -> str:
    return "it" if own else f"task '{head.key}'"

"""An attempt to deliver a task, its end, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from streamsched.domain.backoff import double_pause, shorten_pause
from streamsched.domain.errors import storable_text
from streamsched.domain.limits import add_duration
from streamsched.domain.tasks.queue import LONGEST_WEBHOOK, HttpTarget, Target, TopicTarget, WebhookTarget, WorkerTarget
from streamsched.domain.tasks.recurrence import Recurrence, next_tick
from streamsched.domain.tasks.task import TASK_STATES, TaskFact, TaskState
from streamsched.domain.tasks.task_retry import ConstantRetry, TaskRetry

#: The wait after a worker was lost, at most so long the first time; doubles with each loss. It is drawn, so that a task
#: that ends its workers meets other tasks each time.
_AFTER_LOSS: Final = timedelta(seconds=1)
_LONGEST_AFTER_LOSS: Final = timedelta(minutes=1)
#: What the request of an HTTP target has beyond its timeout, which it ends itself with a better reason.
_GRACE: Final = timedelta(seconds=5)
#: Why an attempt is interrupted whose owner can no longer be sure to be that.
LEASE_OVER: Final = "the lease of its lane may have ended before it was sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTask:
    """A task in flight, as its owner was given it.

    Attributes:
        generation: of the registration that is delivered; a later registration has a higher one.
        failures: attempts of this delivery that failed.
        losses: deliveries of this tick whose worker was lost.
        skipped: missed ticks that were skipped to come to this one.
        planned_at: planned time of the tick that is delivered; of a task that is delivered once, its due time.
        fired: ticks that are done.
        started_at: when this attempt started (UTC).
    """

    id: str
    queue: str
    lane: str
    lane_id: str
    partition: int
    key: str
    generation: int
    due_at: datetime
    planned_at: datetime
    fired: int
    failures: int
    started_at: datetime
    losses: int = 0
    skipped: int = 0
    data: bytes = b""
    content_type: str = ""
    recurrence: Recurrence | None = None
    retry: TaskRetry | None = None

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.failures + 1

    @property
    def token(self) -> str:
        """The same for all attempts of a delivery, another for each tick and each registration."""
        return f"{self.id}.{self.generation}.{self.fired}"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The receiver has done the task. `handled` False: it answered that it has no handler, which ends it, too."""

    at: datetime
    detail: str = ""
    handled: bool = True


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """The receiver failed, refused the task, or did not answer. `final`: another attempt would end alike."""

    at: datetime
    reason: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The worker that did the task is gone: it was killed, or its network is cut. It uses up no attempt, but its target
    bounds how often that may happen: the task may be what ends its workers.
    """

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The attempt ended without the receiver: none is connected, it takes nothing more, or its owner stops. It uses up
    no attempt.
    """

    at: datetime
    reason: str


AttemptEnd = Acknowledged | AttemptFailed | WorkerLost | Interrupted


@dataclass(frozen=True, slots=True)
class TaskEnds:
    """The task is over."""

    state: TaskState
    reason: str


@dataclass(frozen=True, slots=True)
class TaskRetries:
    """The task stays the head of its lane and is tried again at `at` (UTC), with so many failures and losses so far."""

    at: datetime
    failures: int
    reason: str
    losses: int = 0


@dataclass(frozen=True, slots=True)
class TaskTicks:
    """This tick is done, as `state` says; the next one is planned for `planned_at` (UTC)."""

    planned_at: datetime
    fired: int
    state: TaskState
    reason: str


AfterAttempt = TaskEnds | TaskRetries | TaskTicks


def time_limit(target: Target) -> timedelta | None:
    """How long an attempt may last; one that is not acknowledged then has failed. None: a worker's heartbeats extend
    the time, which its stream limits. Pure.
    """
    match target:
        case HttpTarget(timeout=timeout):
            return timeout + _GRACE
        case WebhookTarget():
            return LONGEST_WEBHOOK + _GRACE
        case WorkerTarget():
            return None
        case TopicTarget():
            return _GRACE
        case _:
            assert_never(target)


def after_attempt(task: StartedTask, end: AttemptEnd, retry: TaskRetry, *, max_losses: int = 0) -> AfterAttempt:
    """What follows from the end of an attempt. Pure.

    Args:
        retry: the queue's policy, for a task without its own.
        max_losses: of the target; only connected workers are lost.
    """
    match end:
        case Acknowledged(detail=detail):
            return _after_tick(task, TaskState.SUCCEEDED, storable_text(detail))
        case Interrupted(at=at, reason=reason):
            TASK_STATES.advance(TaskState.IN_FLIGHT, TaskFact.INTERRUPTED)
            return TaskRetries(at, task.failures, storable_text(reason), task.losses)
        case WorkerLost(at=at, reason=reason):
            losses, text = task.losses + 1, storable_text(reason)
            if losses > max_losses:
                return _after_tick(task, TaskState.FAILED, f"{text} (loss {losses}; its queue allows {max_losses})")
            TASK_STATES.advance(TaskState.IN_FLIGHT, TaskFact.INTERRUPTED)
            pause = double_pause(_AFTER_LOSS, losses - 1, longest=_LONGEST_AFTER_LOSS)
            return TaskRetries(
                add_duration(at, shorten_pause(pause, 1, f"{task.token}:{losses}")), task.failures, text, losses
            )
        case AttemptFailed(at=at, reason=reason, final=final):
            failures, policy = task.failures + 1, task.retry or retry
            wait = None if final else policy.wait(task.token, failures)
            if wait is None:
                return _after_tick(task, TaskState.FAILED, storable_text(reason))
            TASK_STATES.advance(TaskState.IN_FLIGHT, TaskFact.FAILED)
            since = task.started_at if isinstance(policy, ConstantRetry) else at
            return TaskRetries(max(at, add_duration(since, wait)), failures, storable_text(reason), task.losses)
        case _:
            assert_never(end)


def _after_tick(task: StartedTask, state: TaskState, reason: str) -> TaskEnds | TaskTicks:
    following = None
    if task.recurrence is not None:
        following = next_tick(task.recurrence, task.fired + 1, task.planned_at)
    if following is not None:
        TASK_STATES.advance(TaskState.IN_FLIGHT, TaskFact.TICKED)
        return TaskTicks(following, task.fired + 1, state, reason)
    fact = TaskFact.SUCCEEDED if state is TaskState.SUCCEEDED else TaskFact.EXHAUSTED
    return TaskEnds(TASK_STATES.advance(TaskState.IN_FLIGHT, fact), reason)

"""Tasks for people and programs: registration, lists, commands, and why one waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.domain.tasks.why import LaneHead, TaskReason


@dataclass(frozen=True, slots=True)
class RegisteredTask:
    """What became of one registration. `generation`: of the task that is live now; None: it has ended."""

    task: str
    verdict: RegistrationVerdict
    generation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task, live or ended.

    Attributes:
        next_at: earliest start of its next attempt (UTC); None when it has ended.
        failures: failed attempts of this tick.
        created_at: when it was enqueued (UTC): of a record of a topic the time that its producer gave it.
        losses: deliveries of this tick whose worker was lost; they used up no attempt.
        interruptions: attempts that ended with their owner, or were given back; they used up none either.
        reason: of its end, or the error of the last attempt.
        options: recurrence and own retry policy, as JSON.
        bytes: size of the data.
        attempts: the latest attempts of this tick, oldest first, as JSON.
        ended_at: UTC; None while it is live.
        final: whether no further tick follows; False also while it is live.
    """

    id: str
    queue: str
    lane: str
    key: str
    state: TaskState
    due_at: datetime
    next_at: datetime | None
    generation: int
    fired: int
    failures: int
    losses: int
    interruptions: int
    created_at: datetime
    reason: str
    options: Mapping[str, Any] | None
    bytes: int
    attempts: Sequence[Any]
    ended_at: datetime | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """A lane with its head; None when it has no task. `waiting`: its tasks, at most `COUNTED`."""

    queue: str
    name: str
    partition: int
    head: LaneHead | None
    waiting: int
    reasons: tuple[TaskReason, ...]


class TaskRegistry(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    async def register(self, queue: str, requests: Sequence[TaskRequest], *, now: datetime) -> Sequence[RegisteredTask]:
        """Stores tasks, all or none. Of several of the same identity the last one counts. Idempotent.

        Raises:
            NotFoundError: there is no such queue.
            InvalidError: a task is invalid or too far in the past; path `$[index]…`. There are more than `MOST_TASKS`.
        """
        ...

    async def get(self, task: str) -> TaskRecord:
        """The live task, else its newest end.

        Raises:
            NotFoundError: neither exists.
        """
        ...

    async def ends(self, task: str, *, limit: int) -> Sequence[TaskRecord]:
        """The ends of its ticks and of earlier registrations, newest first."""
        ...

    async def live(
        self, queue: str, *, lane: str | None, after: tuple[datetime, str] | None, limit: int
    ) -> Sequence[TaskRecord]:
        """Tasks of a queue, or of a lane, that have not ended, by due time and id, after those of a task."""
        ...

    async def scheduled(
        self, queue: str, *, first: tuple[datetime, str, str], before: datetime, limit: int
    ) -> Sequence[TaskRecord]:
        """Tasks of a queue that have not ended and are due before `before`, in the order of due time, lane and key,
        from `first` on.
        """
        ...

    async def data(self, tasks: Sequence[str]) -> Mapping[str, bytes]:
        """The data of those of the tasks that have not ended."""
        ...

    async def ended(self, queue: str, *, after: tuple[datetime, str] | None, limit: int) -> Sequence[TaskRecord]:
        """Ended tasks and ticks of a queue, newest first, after the end of a task."""
        ...

    async def why(self, task: str, *, now: datetime) -> tuple[TaskRecord, tuple[TaskReason, ...]]:
        """A task with the reasons why it is not started; no reasons when it has ended.

        Raises:
            NotFoundError: there is no such task.
        """
        ...

    async def lane(self, queue: str, name: str, *, now: datetime) -> LaneRecord:
        """A lane and why it waits.

        Raises:
            NotFoundError: there is no such queue.
        """
        ...

    async def cancel(self, task: str, reason: str, *, now: datetime) -> TaskRecord:
        """Ends a task that was not started.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it was started, or has ended otherwise.
        """
        ...

    async def drop(self, task: str, reason: str, *, now: datetime) -> TaskRecord:
        """Ends a task in any state, also a stuck one. Its lane goes on; when it is in flight, after its delivery has
        been stopped. Idempotent.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it has ended otherwise.
        """
        ...

    async def move(self, task: str, due_at: datetime, reason: str, *, now: datetime) -> TaskRecord:
        """Gives a task another due time, and so another place in its lane; one that waits for its retry keeps its place
        and is tried again then. Its further ticks do not move.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it is in flight, or has ended.
        """
        ...

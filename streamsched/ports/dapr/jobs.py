"""Jobs of an app, as the tasks of its queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from streamsched.codec.dapr.export import JobCounters
from streamsched.domain.tasks.task import TaskRequest, TaskState

#: The most jobs of one list, and of one import.
MOST_JOBS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask:
    """The task of a job that has not ended.

    Attributes:
        content: the job (`codec.dapr.stored`).
        last_at: planned time of the tick before (UTC); None: there was none.
        error: of the last attempt.
    """

    task: str
    name: str
    content: bytes
    state: TaskState
    counters: JobCounters
    last_at: datetime | None
    error: str


class DaprJobStore(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    async def get(self, queue: str, name: str) -> JobTask:
        """Raises:
        NotFoundError: there is no such job.
        """
        ...

    async def list(self, queue: str, prefix: str) -> Sequence[JobTask]:
        """The jobs whose names begin with a prefix, by name, all at one moment.

        Raises:
            ConflictError: there are more than `MOST_JOBS`.
        """
        ...

    async def delete(self, queue: str, name: str, reason: str, *, now: datetime) -> bool:
        """Ends a job in any state; False without one."""
        ...

    async def delete_prefix(self, queue: str, prefix: str, reason: str, *, now: datetime) -> int:
        """Ends the jobs whose names begin with a prefix; returns how many. Not at one moment: call it again after an
        error.
        """
        ...

    async def restore(
        self, queue: str, jobs: Sequence[tuple[TaskRequest, JobCounters]], *, now: datetime
    ) -> Sequence[str]:
        """Stores jobs with their counters, all or none; returns the names of those that exist already, and then nothing
        was stored.

        Raises:
            NotFoundError: there is no such queue.
            InvalidError: a job is invalid.
        """
        ...

"""Jobs of an app, as the tasks of its queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from streamsched.codec.dapr.export import ExportedLine, JobCounters
from streamsched.domain.tasks.task import TaskRequest, TaskState

#: The most jobs of one message, and of one import.
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

    def snapshot(self, queue: str, prefix: str) -> AsyncIterator[Sequence[JobTask]]:
        """The jobs whose names begin with a prefix, by name, all at one moment, in batches. It holds a connection until
        it ends; few go on at a time.
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
        self,
        queue: str,
        staged: AsyncIterator[Sequence[ExportedLine]],
        read: Callable[[Sequence[ExportedLine]], Sequence[tuple[TaskRequest, JobCounters]]],
        *,
        now: datetime,
    ) -> tuple[int, Sequence[str]]:
        """Stores exported jobs with their counters, all or none. They are first set aside as they come, and then read
        in the order in which their lanes are locked; `read` may take its time.

        Returns how many were stored, and the names of those that exist already: then nothing was stored.

        Raises:
            NotFoundError: there is no such queue.
            InvalidError: a job is invalid, or there are more than `MOST_JOBS`; also whatever `staged` raises.
        """
        ...

"""The jobs of apps: schedule, get, list, delete, export and import. Each app id has a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.codec.json.reading import prefix_errors
from streamsched.dialects.dapr.codec.export import ExportedLine, ExportReader, JobCounters, job_of_line
from streamsched.dialects.dapr.codec.job import DEFAULT_FAILURE, DaprJob, check_name, check_present, retry_of, timing
from streamsched.dialects.dapr.codec.refusal import JobFault, JobRefusedError
from streamsched.dialects.dapr.codec.scope import DaprScope
from streamsched.dialects.dapr.codec.stored import CONTENT_TYPE, job_from_bytes, job_to_bytes
from streamsched.dialects.dapr.store.jobs import MOST_JOBS, DaprJobStore, JobTask
from streamsched.domain.errors import ConflictError, InvalidDefinitionError, InvalidError, NotFoundError
from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.domain.tasks.recurrence import next_ticks
from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import OnExisting, TaskRequest
from streamsched.ports.clock import Clock
from streamsched.store.connections import Pool
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry
from streamsched.wire.task_requests import options_from_json

log = structlog.get_logger()

#: Of the queue of an app; people may change it. Repeats of a job never ask whether it has ended.
#: An app sends no heartbeats, so its attempts have a long time.
_POLICY: Final = QueuePolicy(
    target=WorkerTarget(timedelta(minutes=30)), retry=retry_of(DEFAULT_FAILURE), dedupe=timedelta(0)
)


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job that has not ended, with its task."""

    job: DaprJob
    task: JobTask


def make_desk(pool: Pool, clock: Clock) -> DaprDesk:
    """The requests for jobs of any app."""
    return DaprDesk(DaprJobStore(pool), QueueStore(pool), TaskRegistry(pool), clock)


class DaprDesk:
    """Requests for jobs. All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, jobs: DaprJobStore, queues: QueueStore, tasks: TaskRegistry, clock: Clock) -> None:
        self._jobs = jobs
        self._queues = queues
        self._tasks = tasks
        self._clock = clock

    async def open(self, app: DaprScope) -> None:
        """Creates the app's queue, unless it exists.

        Raises:
            ConflictError: there are too many queues.
        """
        try:
            await self._queues.get(app.queue)
        except NotFoundError:
            await self._queues.set(app.queue, _POLICY, f"jobs of {app.label}", now=self._clock.now())

    async def schedule(self, app: DaprScope, job: DaprJob | None, *, overwrite: bool, strict: bool = False) -> None:
        """Stores a job.

        Raises:
            JobRefusedError, InvalidError: it is invalid.
            ConflictError: a job of that name exists, and it is not overwritten.
        """
        if job is None:
            raise JobRefusedError(JobFault.EMPTY)
        now = self._clock.now()
        request = request_of(job, now, overwrite=overwrite, strict=strict)
        if request is None:
            await self._store_nothing(app, job, overwrite, now)
            return
        try:
            (found,) = await self._tasks.register(app.queue, [request], now=now)
        except NotFoundError:
            await self.open(app)
            (found,) = await self._tasks.register(app.queue, [request], now=now)
        if found.verdict is RegistrationVerdict.EXISTS:
            raise _exists([job.name])

    async def get(self, app: DaprScope, name: str) -> KnownJob:
        """The job of the app with that name.

        Raises:
            NotFoundError: there is no such job; one that has ended is none.
        """
        _check_asked(name)
        try:
            task = await self._jobs.get(app.queue, name)
        except InvalidError:
            raise NotFoundError("job", name) from None
        return KnownJob(job_from_bytes(name, task.content), task)

    async def next_fires(self, app: DaprScope, name: str, count: int) -> Sequence[datetime]:
        """The next deliveries of a job (UTC), at most `count`; first the one that waits, at its next attempt.

        Raises:
            NotFoundError: there is no such job.
        """
        found = await self.get(app, name)
        counters, now = found.task.counters, self._clock.now()
        recurrence, _ = options_from_json((await self._tasks.get(found.task.task)).options)
        if recurrence is None:
            return [counters.next_at]
        ticks = next_ticks(recurrence, counters.fired, counters.planned_at, now, count)
        return [max(ticks[0], counters.next_at), *ticks[1:]] if ticks else []

    async def jobs(self, app: DaprScope, prefix: str = "") -> AsyncIterator[Sequence[KnownJob]]:
        """The jobs of an app, by name, all at one moment, in batches. Tasks of its queue that are no jobs are left
        out.
        """
        async for batch in self._jobs.snapshot(app.queue, prefix):
            found: list[KnownJob] = []
            for task in batch:
                try:
                    found.append(KnownJob(job_from_bytes(task.name, task.content), task))
                except InvalidError as exc:
                    log.warning("dapr.task_is_no_job", queue=app.queue, task=task.task, reason=exc.reason)
            yield found

    async def message(self, app: DaprScope, written: Callable[[Sequence[KnownJob]], bytes], prefix: str = "") -> bytes:
        """The same in one message, which is what is written of its batches, one after another.

        Raises:
            ConflictError: there are too many.
        """
        parts: list[bytes] = []
        count = 0
        async for batch in self.jobs(app, prefix):
            count += len(batch)
            if count > MOST_JOBS:
                raise ConflictError(f"there are more than {MOST_JOBS} jobs; ask for those of a longer prefix")
            parts.append(written(batch))
        return b"".join(parts)

    async def delete(self, app: DaprScope, name: str) -> bool:
        """Ends a job; False without one. An answer of the app that arrives later is ignored."""
        _check_asked(name)
        try:
            return await self._jobs.delete(app.queue, name, "deleted", now=self._clock.now())
        except InvalidError:
            return False

    async def delete_prefix(self, app: DaprScope, prefix: str) -> int:
        """Ends the jobs whose names begin with a prefix, all with an empty one; returns how many."""
        return await self._jobs.delete_prefix(app.queue, prefix, "deleted", now=self._clock.now())

    async def restore(self, app: DaprScope, lines: AsyncIterator[Sequence[bytes]], *, overwrite: bool) -> int:
        """Stores the jobs of an export with their counters, all or none; returns how many.

        Raises:
            InvalidError: it is no whole export, or a job is invalid.
            ConflictError: some exist, and they are not overwritten.
        """
        await self.open(app)

        async def stage_lines() -> AsyncIterator[Sequence[ExportedLine]]:
            reader = ExportReader()
            async for some in lines:
                yield await asyncio.to_thread(reader.read, some)
            reader.end()

        def read(some: Sequence[ExportedLine]) -> Sequence[tuple[TaskRequest, JobCounters]]:
            found: list[tuple[TaskRequest, JobCounters]] = []
            for each in some:
                job, counters = job_of_line(each)
                with prefix_errors(f"$[{each.position}]"):
                    found.append((_restore_request(job, counters, overwrite=overwrite), counters))
            return found

        count, known = await self._jobs.restore(app.queue, stage_lines(), read, now=self._clock.now())
        if known:
            raise _exists(known)
        return count

    async def _store_nothing(self, app: DaprScope, job: DaprJob, overwrite: bool, now: datetime) -> None:
        """As a job whose ttl ends before its first tick: it vanishes at once, with the one that it replaces."""
        if overwrite:
            await self._jobs.delete(app.queue, job.name, "replaced by a job without a tick", now=now)
            return
        try:
            await self._jobs.get(app.queue, job.name)
        except NotFoundError:
            return
        raise _exists([job.name])


def request_of(job: DaprJob, now: datetime, *, overwrite: bool, strict: bool = False) -> TaskRequest | None:
    """The registration of a job's task; None: it has no tick, and `strict` accepts that.

    Raises:
        JobRefusedError, InvalidError: the job is invalid.
    """
    check_present(job)
    check_name(job.name)
    plan = timing(job, now, strict=strict)
    if plan.empty:
        if strict:
            return None
        raise InvalidDefinitionError("$.ttl", "ends before the first tick, so the job would never be delivered")
    return TaskRequest(
        key=job.name,
        due_at=plan.due_at,
        data=job_to_bytes(job),
        content_type=CONTENT_TYPE,
        recurrence=plan.recurrence,
        retry=retry_of(job.failure_policy),
        on_existing=OnExisting.OVERWRITE if overwrite else OnExisting.REFUSE,
    )


def _restore_request(job: DaprJob, counters: JobCounters, *, overwrite: bool) -> TaskRequest:
    """The registration of an exported job: its due time is that of its next tick, its ttl ends when it did before."""
    due = counters.due_at.isoformat().replace("+00:00", "Z")
    ttl = None if counters.until is None else counters.until.isoformat().replace("+00:00", "Z")
    planned = request_of(replace(job, due_time=due, ttl=ttl), counters.due_at, overwrite=overwrite)
    assert planned is not None
    return replace(planned, data=job_to_bytes(job))


def _check_asked(name: str) -> None:
    if not name.strip():
        raise JobRefusedError(JobFault.NAME_EMPTY, path="$.name")


def _exists(names: Sequence[str]) -> ConflictError:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return ConflictError(f"job already exists: '{names[0]}'{more}")

"""`ports.runner.InlineRunner`: HTTP, publish and enqueue programs are executed in the launcher's process, and arrivals.

A run is held from its claim until its end is stored, with heartbeats. Its start is stored before its request leaves, so
when the launcher dies, `launcher.recovery` knows which requests may have left: those runs are repeated, and the others
return to the queue. Every attempt of a job sends the same `Idempotency-Key`. A published event, a task, or a node
that has arrived, is stored in the transaction of its run's end, without a start before.

An `InFlightWindow` limits how many runs with a request are held, so that starts and ends are stored promptly. Runs that
publish wait only until their ends are stored; their number has a limit of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final

import structlog

from streamsched.domain.errors import (
    SYSTEMIC,
    ConfigurationError,
    ConflictError,
    InvalidError,
    NotFoundError,
    describe_failure,
)
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.jobs.in_flight import InFlightWindow, load_of
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.schedule import EnqueueJob, HttpJob, InlineExecutable, Program, PublishJob
from streamsched.domain.schedules.template import fill_template
from streamsched.launcher.request import arrived_node, enqueued_task, request, send, send_with_secrets
from streamsched.ports.clock import Clock
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Assignment, RunEnd
from streamsched.process.http_client import HttpClient
from streamsched.process.pausing import pause
from streamsched.process.run_forever import run_forever
from streamsched.secrets.resolver import Secrets
from streamsched.store.runs.arrived_nodes import ArrivedNode
from streamsched.store.runs.run_batch import Product, RunBatch
from streamsched.telemetry.traces.onward import add_program_context

log = structlog.get_logger()

SOURCE: Final = "streamsched/runs"
#: Seconds between two steps when no run is held.
_IDLE: Final = 60.0
#: Ends stored in one transaction, which holds the locks of their programs, and starts stored in one.
_AT_ONCE: Final = 1024
#: Ends that may wait to be stored, as a multiple of the capacity; above that no run that publishes is accepted.
_UNSTORED: Final = 4
#: Seconds of a timer that measures how late the event loop is.
_TIMER: Final = 0.05


class InlineExecutor:
    """Belongs to the launcher's event loop. The other methods may be called while `run` runs, or before; queued runs
    are claimed when it runs.

    Args:
        me: the id of this process, stored as the runner of its runs.
        client: of this executor alone, which closes it.
        capacity: most runs with a request held at a time.
        heartbeat: the interval of heartbeats.
        secrets: reads those that requests need.
        sampler: of traces; None when no spans are made.
    """

    def __init__(
        self,
        batch: RunBatch,
        me: RunnerId,
        client: HttpClient,
        clock: Clock,
        *,
        capacity: int = 1024,
        heartbeat: timedelta = timedelta(seconds=2),
        secrets: Secrets | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self.runner = me
        self._sampler = sampler
        self._secrets = secrets or Secrets()
        self._runs = batch
        self._clock = clock
        self._capacity = capacity
        self._window = InFlightWindow(capacity)
        self._lag_s = 0.0
        self._heartbeat = heartbeat.total_seconds()
        self._queued: dict[str, None] = {}
        self._held: dict[str, Assignment] = {}
        self._unsent: dict[str, Assignment] = {}
        self._requests: dict[str, asyncio.Task[RunEnd]] = {}
        self._ended: dict[str, RunEnd] = {}
        self._events: dict[str, Event] = {}
        self._products: dict[str, Product] = {}
        self._wake = asyncio.Event()
        self._was_full = False
        self._room_made = asyncio.Event()
        self._heartbeat_at = 0.0
        self._client = client

    def fits(self, program: Program) -> bool:
        """Whether the program is executed without a process of its own."""
        return isinstance(program.executable, InlineExecutable)

    def room(self) -> int:
        """How many more runs with a request it takes now."""
        return max(0, self._window.size - self._with_request())

    def publications(self) -> int:
        """How many more runs it takes that only publish: as many as it may hold ended and not yet stored."""
        return max(0, _UNSTORED * self._capacity - len(self._ended))

    async def wait_for_room(self) -> None:
        """Returns when there was no room and there is some again."""
        await self._room_made.wait()
        self._room_made.clear()

    def execute(self, runs: Sequence[Assignment]) -> None:
        """Begins claimed runs. Idempotent: a run that it holds is not begun again."""
        for each in runs:
            if each.run not in self._held:
                self._held[each.run] = run = add_program_context(each, self._sampler)
                self._begin(run)
        self._was_full |= not self.room()
        self._wake.set()

    def claim_and_execute(self, runs: Sequence[str]) -> None:
        """Begins runs that are still to be claimed; those that another launcher claims first are left to it."""
        self._queued |= dict.fromkeys(runs)
        self._was_full |= not self.room()
        self._wake.set()

    def holds(self, run: str) -> bool:
        """Whether it executes the run, or will claim it."""
        return run in self._held or run in self._queued

    async def run(self) -> None:
        """Executes until cancelled, then cancels requests in progress: another launcher repeats their runs. Retries
        while PostgreSQL is unavailable.
        """
        timer = asyncio.create_task(self._measure_lag())
        try:
            await run_forever(self._step, sleep=partial(pause, self._wake), called="inline_executor")
        finally:
            timer.cancel()
            for run in list(self._requests):
                self._forget(run)
            await self._client.close()

    async def run_once(self) -> int:
        """Claims queued runs, stores ends, stores starts and sends their requests, and sends heartbeats when they are
        due; returns how many ends were stored.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing is dropped, call again.
        """
        self._wake.clear()
        began = asyncio.get_running_loop().time()
        held = self._with_request()
        if self._queued:
            await self._claim(list(self._queued))
        results = await asyncio.gather(self._store(), self._start(), return_exceptions=True)
        for each in results:
            if isinstance(each, BaseException):
                raise each
        now = asyncio.get_running_loop().time()
        self._window = self._window.adjust(held=held, load=load_of(step_s=now - began, lag_s=self._lag_s))
        if len(self._held) > len(self._ended) and now - self._heartbeat_at >= self._heartbeat:
            await self._send_heartbeats()
            self._heartbeat_at = now
        if self._was_full and 2 * self.room() >= self._window.size:
            self._was_full = False
            self._room_made.set()
        return sum(each for each in results if isinstance(each, int))

    def _with_request(self) -> int:
        """How many runs are held that send a request, with those to be claimed, of which that is not known yet."""
        return len(self._held) - len(self._events) - len(self._products) + len(self._queued)

    def _count_sendable(self) -> int:
        """How many more requests may be on their way."""
        return max(0, self._window.size - len(self._requests))

    async def _claim(self, runs: Sequence[str]) -> None:
        """Starts the runs it gets. One that cannot be read is left to the run monitor."""
        search = FailureIsolation(runs)
        for part in search:
            try:
                now = self._clock.now()
                self.execute(await self._runs.claim(part, runner=str(self.runner), log_path=None, now=now))
            except Exception as exc:  # noqa: BLE001 - a row may hold anything; the other runs start
                if search.halve(exc):
                    continue
                log.error("inline_executor.claim_failed", run=part[0], reason=describe_failure(exc))
            for run in part:
                del self._queued[run]

    async def _start(self) -> None:
        if runs := list(islice(self._unsent, min(self._count_sendable(), _AT_ONCE))):
            await self._send(runs)

    async def _send(self, runs: Sequence[str]) -> None:
        """Stores the starts of runs and sends their requests; not of runs that are no longer this process's, nor of
        those that are to stop. A run whose start cannot be stored is left to the run monitor.
        """
        search = FailureIsolation(runs)
        for part in search:
            try:
                stops = await self._runs.mark_started(part, runner=str(self.runner), now=self._clock.now())
            except Exception as exc:  # noqa: BLE001 - as above
                if not search.halve(exc):
                    log.error("inline_executor.start_refused", run=part[0], reason=describe_failure(exc))
                    self._forget(part[0])
                continue
            taken = [run for run in part if run not in stops]
            if taken:
                log.warning("inline_executor.runs_taken_back", runs=len(taken), first=taken[0])
            for run in taken:
                self._forget(run)
            for run, stop in stops.items():
                assignment = self._unsent.pop(run)
                if stop is None:
                    self._request(assignment)
                else:
                    self._end(run, RunEnd(RunState.KILLED, stop.why, self._clock.now()))

    async def _store(self) -> int:
        ended = list(islice(self._ended, _AT_ONCE))
        stored = await self._finish(ended) if ended else 0
        if stored:
            log.info("inline_executor.ends_stored", runs=stored)
        return stored

    async def _finish(self, runs: Sequence[str]) -> int:
        """Stores the ends of runs; returns how many are stored."""
        search, stored = FailureIsolation(runs), 0
        for part in search:
            try:
                events = {run: self._events[run] for run in part if run in self._events}
                products = {run: self._products[run] for run in part if run in self._products}
                await self._runs.finish({run: self._ended[run] for run in part}, events=events, products=products)
            except Exception as exc:  # noqa: BLE001 - as above
                if not search.halve(exc):
                    stored += await self._finish_refused(part[0], exc)
                continue
            for run in part:
                self._forget(run)
            stored += len(part)
        return stored

    async def _finish_refused(self, run: str, refusal: Exception) -> int:
        """Ends a run whose end cannot be stored, without what it should have made if that is the cause. A conflict is
        tried again. Returns how many ends are stored.
        """
        log.error("inline_executor.end_refused", run=run, reason=describe_failure(refusal))
        product = self._products.get(run)
        if isinstance(refusal, NotFoundError | InvalidError) and product is not None:
            del self._products[run]
            lacking = "node was completed" if isinstance(product, ArrivedNode) else "task was made"
            self._ended[run] = RunEnd(RunState.FAILED, f"no {lacking}: {describe_failure(refusal)}", self._clock.now())
            return await self._finish([run])
        return 0 if isinstance(refusal, ConflictError) else await self._finish_bare(run)

    async def _finish_bare(self, run: str) -> int:
        """Stores the end without its texts and its event; a run whose event is dropped is FAILED. A run that cannot be
        ended even so is left to the run monitor.
        """
        bare = self._ended[run].drop_texts(self._clock.now())
        if self._events.pop(run, None) is not None or self._products.pop(run, None) is not None:
            bare = replace(bare, state=RunState.FAILED)
        try:
            await self._runs.finish({run: bare}, events={})
        except SYSTEMIC:
            raise
        except Exception as exc:  # noqa: BLE001 - as above
            log.error("run.end_failed", run=run, reason=describe_failure(exc))
        self._forget(run)
        return 1

    async def _send_heartbeats(self) -> None:
        live = [run for run in self._held if run not in self._ended]
        stops = await self._runs.heartbeat(live, runner=str(self.runner), now=self._clock.now())
        disowned = [run for run in live if run not in stops]
        if disowned:
            log.error("inline_executor.runs_disowned", runs=len(disowned), first=disowned[0])
        for run in disowned:
            self._forget(run)
        for run, stop in stops.items():
            if stop is not None and run in self._held and run not in self._ended:
                self._unsent.pop(run, None)
                if (task := self._requests.pop(run, None)) is not None:
                    task.cancel()
                self._end(run, RunEnd(RunState.KILLED, stop.why, self._clock.now()))

    def _begin(self, run: Assignment) -> None:
        """Ends the run of a publication; a request waits until its start is stored."""
        try:
            match run.program.executable:
                case PublishJob() as job:
                    event = _event(run, job, self._clock)
                    self._events[run.run] = event
                    self._end(run.run, RunEnd(RunState.COMPLETED, f"published {job.event}", event.time, 0))
                case EnqueueJob() as job:
                    now = self._clock.now()
                    self._products[run.run] = enqueued_task(run, job, now)
                    self._end(run.run, RunEnd(RunState.COMPLETED, f"made a task of queue '{job.queue}'", now, 0))
                case ArrivalJob() as job:
                    self._products[run.run] = arrived = arrived_node(run, job)
                    ended = RunEnd(RunState.COMPLETED, f"completed node {arrived.node}", self._clock.now(), 0)
                    self._end(run.run, ended)
                case HttpJob():
                    self._unsent[run.run] = run
                case other:
                    raise ConfigurationError(f"launchers do not execute a {type(other).__name__} themselves")
        except Exception as exc:  # noqa: BLE001 - its definition may hold anything; only this run fails
            self._fail(run, exc)

    def _request(self, run: Assignment) -> None:
        job = run.program.executable
        assert isinstance(job, HttpJob)
        try:
            if job.secrets():
                sending = send_with_secrets(self._client, run, job, self._secrets, self._clock)
            else:
                sending = send(self._client, request(run, job), job.timeout, self._clock)
            task = asyncio.create_task(sending)
        except Exception as exc:  # noqa: BLE001 - as above
            self._fail(run, exc)
            return
        self._requests[run.run] = task
        task.add_done_callback(partial(self._handle_answer, run.run))

    def _fail(self, run: Assignment, failure: Exception) -> None:
        why = f"the program cannot be started: {describe_failure(failure)}"
        self._end(run.run, RunEnd(RunState.FAILED, why, self._clock.now()))

    def _handle_answer(self, run: str, task: asyncio.Task[RunEnd]) -> None:
        if task.cancelled() or self._requests.pop(run, None) is None:
            return
        failure = task.exception()
        failed = None if failure is None else RunEnd(RunState.FAILED, repr(failure), self._clock.now())
        self._end(run, failed or task.result())

    def _end(self, run: str, ending: RunEnd) -> None:
        self._ended[run] = ending
        self._wake.set()

    def _forget(self, run: str) -> None:
        for by_run in (self._held, self._unsent, self._ended, self._events, self._products):
            by_run.pop(run, None)
        task = self._requests.pop(run, None)
        if task is not None:
            task.cancel()

    async def _step(self) -> float:
        """Seconds until the next step."""
        await self.run_once()
        if self._queued or self._ended or (self._unsent and self._count_sendable()):
            return 0.0
        return self._heartbeat if self._held else _IDLE

    async def _measure_lag(self) -> None:
        """Measures by how many seconds the event loop is late for a timer; the mean of the last few."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _TIMER
            await asyncio.sleep(_TIMER)
            self._lag_s += (max(0.0, loop.time() - due) - self._lag_s) / 4


def _event(run: Assignment, job: PublishJob, clock: Clock) -> Event:
    attributes = {name: fill_template(value, run.arguments) for name, value in job.attributes.items()}
    return Event(f"{run.run}:{job.event}", SOURCE, clock.now(), CustomHappened(job.event, attributes), run.traceparent)

"""`ports.runner.Hands`: programs that are a request or an event are executed by the launcher itself, without a process.

A run is held from its claim until its end is stored. Heartbeats say that it lives; a launcher that dies leaves silent
runs, which are found LOST and repeated as any others. What is published goes out with the end of its run, in one
transaction; a request may have been answered when its launcher dies before that is stored, so each carries an
`Idempotency-Key`, the same for every attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final

import httpx
import structlog

from streamsched.attendance import attend
from streamsched.domain.errors import ConfigurationError, ConflictError, InvalidError
from streamsched.domain.event import CustomHappened, Event
from streamsched.domain.run import RunState
from streamsched.domain.schedule import HttpJob, Program, PublishJob, Quick
from streamsched.domain.template import filled
from streamsched.launcher.request import open_client, request, send
from streamsched.ports.clock import Clock
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Assignment, Ending, RunCrowd

log = structlog.get_logger()

SOURCE: Final = "streamsched/runs"
#: Seconds between two looks when nothing is held.
_IDLE: Final = 60.0
#: How many ends are stored in a transaction: nobody decides about their programs meanwhile.
_AT_ONCE: Final = 1024
#: How many times as many ends as runs at a time may wait to be stored.
_UNSTORED: Final = 4


class QuickHands:
    """Belongs to the launcher's event loop. `begin`, `take`, `room` and `holds` may be called while `run` runs, or
    before; what was given is executed when it does.

    Args:
        me: this process, as others look for it.
        capacity: so many runs go on at a time; those that have ended wait for no more than a commit.
        heartbeat: how often those that go on say so.
    """

    def __init__(
        self,
        crowd: RunCrowd,
        me: RunnerId,
        clock: Clock,
        *,
        capacity: int = 1024,
        heartbeat: timedelta = timedelta(seconds=2),
    ) -> None:
        self.runner = me
        self._crowd = crowd
        self._clock = clock
        self._capacity = capacity
        self._heartbeat = heartbeat.total_seconds()
        self._given: dict[str, None] = {}
        self._held: dict[str, Assignment] = {}
        self._requests: dict[str, asyncio.Task[Ending]] = {}
        self._ended: dict[str, Ending] = {}
        self._said: dict[str, Event] = {}
        self._news = asyncio.Event()
        self._beat_at = 0.0
        self._client: httpx.AsyncClient | None = None

    def fits(self, program: Program) -> bool:
        return isinstance(program.executable, Quick)

    def room(self) -> int:
        ended = len(self._ended)
        going_on = len(self._held) - ended + len(self._given)
        return max(0, self._capacity - going_on) if ended < _UNSTORED * self._capacity else 0

    def begin(self, runs: Sequence[Assignment]) -> None:
        for each in runs:
            if each.run not in self._held:
                self._held[each.run] = each
                self._start(each)
        self._news.set()

    def take(self, runs: Sequence[str]) -> None:
        self._given |= dict.fromkeys(runs)
        self._news.set()

    def holds(self, run: str) -> bool:
        return run in self._held or run in self._given

    async def run(self) -> None:
        """Executes until cancelled, then lets go of requests: their runs are found lost. Waits for PostgreSQL."""
        try:
            await attend(self._look, rest=self._heard, called="hands")
        finally:
            for run in list(self._requests):
                self._forget(run)

    async def run_once(self) -> int:
        """Claims what was given, stores what has ended, and says what lives when it is time; returns how many ends
        were stored.

        Raises:
            UnavailableError: PostgreSQL is away; nothing is forgotten, call again.
        """
        self._news.clear()
        if self._given:
            await self._claim(list(self._given))
        stored = await self._store()
        now = asyncio.get_running_loop().time()
        if len(self._held) > len(self._ended) and now - self._beat_at >= self._heartbeat:
            await self._beat()
            self._beat_at = now
        return stored

    async def _claim(self, runs: Sequence[str]) -> None:
        """Begins what it gets of them; apart, when one of them cannot be read, which is left to be found."""
        try:
            self.begin(await self._crowd.claim(runs, runner=str(self.runner), log_path=None, now=self._clock.now()))
        except InvalidError as exc:
            half = len(runs) // 2
            if half:
                await self._claim(runs[:half])
                await self._claim(runs[half:])
                return
            log.error("hands.unreadable", run=runs[0], reason=str(exc))
        for run in runs:
            del self._given[run]

    async def _store(self) -> int:
        ended = list(islice(self._ended, _AT_ONCE))
        stored = await self._finish(ended) if ended else 0
        if stored:
            log.info("hands.ended", runs=stored)
        return stored

    async def _finish(self, runs: Sequence[str]) -> int:
        """Stores their ends, apart when that fails for one of them; returns how many are stored."""
        endings = {run: self._ended[run] for run in runs}
        try:
            await self._crowd.finish(endings, said={run: self._said[run] for run in runs if run in self._said})
        except (ConflictError, InvalidError) as exc:
            half = len(runs) // 2
            if half:
                return await self._finish(runs[:half]) + await self._finish(runs[half:])
            log.error("hands.end_refused", run=runs[0], reason=str(exc))
            return await self._finish_bare(runs[0]) if isinstance(exc, InvalidError) else 0
        for run in runs:
            self._forget(run)
        return len(runs)

    async def _finish_bare(self, run: str) -> int:
        """What it said is not published, so that is no success. A run that cannot end even so is left to be found."""
        bare = self._ended[run].bare(self._clock.now())
        if self._said.pop(run, None) is not None:
            bare = replace(bare, state=RunState.FAILED)
        try:
            await self._crowd.finish({run: bare}, said={})
        except (ConflictError, InvalidError) as exc:
            log.error("run.not_ended", run=run, reason=str(exc))
        self._forget(run)
        return 1

    async def _beat(self) -> None:
        asked = [run for run in self._held if run not in self._ended]
        answers = await self._crowd.beat(asked, runner=str(self.runner), now=self._clock.now())
        for run in asked:
            if run not in answers:
                log.error("run.disowned", run=run)
                self._forget(run)
            elif (stop := answers[run]) is not None and run not in self._ended:
                self._requests.pop(run).cancel()
                self._end(run, Ending(RunState.KILLED, stop.why, self._clock.now()))

    def _start(self, run: Assignment) -> None:
        try:
            match run.program.executable:
                case PublishJob() as job:
                    event = _event(run, job, self._clock)
                    self._said[run.run] = event
                    self._end(run.run, Ending(RunState.COMPLETED, f"published {job.event}", event.time, 0))
                case HttpJob() as job:
                    self._client = self._client or open_client()
                    task = asyncio.create_task(send(self._client, request(run, job), job.timeout, self._clock))
                    self._requests[run.run] = task
                    task.add_done_callback(partial(self._done, run.run))
                case other:
                    raise ConfigurationError(f"launchers do not execute a {type(other).__name__} themselves")
        except ConfigurationError as exc:
            self._end(run.run, Ending(RunState.FAILED, f"the program cannot be started: {exc}", self._clock.now()))

    def _done(self, run: str, task: asyncio.Task[Ending]) -> None:
        if task.cancelled() or self._requests.pop(run, None) is None:
            return
        wrong = task.exception()
        failed = None if wrong is None else Ending(RunState.FAILED, repr(wrong), self._clock.now())
        self._end(run, failed or task.result())

    def _end(self, run: str, ending: Ending) -> None:
        self._ended[run] = ending
        self._news.set()

    def _forget(self, run: str) -> None:
        for known in (self._held, self._ended, self._said):
            known.pop(run, None)
        task = self._requests.pop(run, None)
        if task is not None:
            task.cancel()

    async def _look(self) -> float:
        """Seconds until something is to be said."""
        await self.run_once()
        if self._given or self._ended:
            return 0.0
        return self._heartbeat if self._held else _IDLE

    async def _heard(self, seconds: float) -> None:
        """News came, or so much time has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


def _event(run: Assignment, job: PublishJob, clock: Clock) -> Event:
    attributes = {name: filled(value, run.arguments) for name, value in job.attributes.items()}
    return Event(f"{run.run}:{job.event}", SOURCE, clock.now(), CustomHappened(job.event, attributes))

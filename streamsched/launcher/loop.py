"""The launcher's loop: due jobs are decided, program by program; admitted ones get their runner process.

One pass (`run_once`), and one transaction of it (`_decide_batch`):

    DecisionStore.due                the programs with due jobs, packed into batches of at most `_JOBS` jobs
    _reserve_room                    the room of the inline runner that the batch may use up
    DecisionStore.lock               one transaction, `store/jobs/decisions.py`:
        lock                           programs, their due jobs' schedules, jobs, groups, token buckets, load gates
        read                           a `DecisionInput` for each program, the `Resources` they share
        judge_programs                 `domain.decisions.judge`, pure: Admit, Wait, Join or End for each job
        DecisionBatch.store            `store/jobs/decision_writes.py`: job states, PENDING runs, resources, history
    InlineRunner.execute             the admitted runs that were claimed for this process
    RunMonitor.spawn                 a runner process for each other PENDING run

The loop sleeps until the next check is due or another process notifies it (a job arrived, a run ended, a schedule
changed), and sweeps periodically because a notification may be lost. Any number of launchers share the work: each
program's lock has one holder.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from streamsched.domain.decisions.decision import Decision
from streamsched.domain.decisions.decision_batch import judge_programs
from streamsched.domain.errors import describe_failure
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.launcher.plugin_evaluator import PluginEvaluator
from streamsched.launcher.run_monitor import RunMonitor
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import LAUNCHER, Notifier, NotifierSubscription
from streamsched.ports.runner import InlineRunner
from streamsched.process.cancellation import cancel
from streamsched.process.run_forever import run_forever
from streamsched.store.jobs.decision_writes import InlineRoom
from streamsched.store.jobs.decisions import DecisionStore

log = structlog.get_logger()

#: Most programs of one pass, and most jobs of one transaction, over all its programs.
_PROGRAMS: Final = 64
_JOBS: Final = 512
#: Batches in progress at a time: while PostgreSQL stores one, the next is decided.
_CONCURRENT: Final = 2
#: Seconds until the next attempt at programs that another launcher has locked.
_LOCKED_RETRY: Final = 0.02
#: How often silent runs are checked.
_SWEEP: Final = timedelta(seconds=5)
#: How often waiting jobs without a wake-up are rechecked, and how long a job is without one until then.
_RECHECK: Final = timedelta(seconds=30)
_UNWOKEN: Final = timedelta(seconds=60)


class Launcher:
    """Decides and launches; belongs to one task. With `inline`, runs that it fits start with their admission."""

    def __init__(
        self,
        decisions: DecisionStore,
        run_monitor: RunMonitor,
        notifier: Notifier,
        clock: Clock,
        plugins: PluginEvaluator | None = None,
        *,
        inline: InlineRunner | None = None,
    ) -> None:
        self._decisions = decisions
        self._run_monitor = run_monitor
        self._notifier = notifier
        self._clock = clock
        self._plugins = plugins or PluginEvaluator({}, decisions, clock)
        self._inline = inline
        #: Room of the inline runner, for requests and for publications, that batches in progress may use up.
        self._reserved = (0, 0)
        self._swept_at: datetime | None = None
        self._rechecked_at: datetime | None = None

    async def run(self) -> None:
        """Decides and launches until cancelled; retries while PostgreSQL is unavailable."""
        async with self._notifier.listen(LAUNCHER) as subscription:
            await run_forever(self._step, sleep=partial(self._sleep, subscription), called="launcher")

    async def run_once(self) -> int:
        """One pass: sweeps when it is time, decides due jobs, starts runners. Returns how many jobs were decided; above
        0, more may be due.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        now = self._clock.now()
        if self._swept_at is None or now - self._swept_at >= _SWEEP:
            await self._run_monitor.check_runs()
            self._swept_at = now
        if self._rechecked_at is None or now - self._rechecked_at >= _RECHECK:
            await self._decisions.recheck_all(before=now - _UNWOKEN)
            self._rechecked_at = now
        due = await self._decisions.count_due(now, limit=_PROGRAMS)
        batches = _batches(due)
        results = await asyncio.gather(*(self._decide_all(batches) for _ in range(_CONCURRENT)), return_exceptions=True)
        for each in results:
            if isinstance(each, BaseException):
                raise each
        decided = sum(each for each in results if isinstance(each, int))
        if due and not decided:  # other launchers hold all of them: wait for one lock instead of polling
            decided = await self._decide(next(_batches(due)), wait=True)
        await self._run_monitor.spawn()
        return decided

    async def _decide_all(self, batches: Iterator[Sequence[str]]) -> int:
        return sum([await self._decide(programs) for programs in batches])

    async def _decide(self, programs: Sequence[str], *, wait: bool = False) -> int:
        """Decides about several programs in one transaction; when that fails, in parts, down to the jobs of the program
        that is the cause.
        """
        decided, search = 0, FailureIsolation(programs)
        for part in search:
            try:
                decided += await self._decide_batch(part, wait=wait and len(part) == len(programs))
            except Exception as failure:  # noqa: BLE001 - it is one job's
                if not search.halve(failure):
                    log.warning("launcher.batch_failed", program=part[0], reason=describe_failure(failure))
                    decided += await self._decide_jobs(part[0])
        return decided

    async def _decide_jobs(self, program: str) -> int:
        """Decides about the due jobs of a program in parts; the job that is the cause of a failure is put off."""
        jobs = await self._decisions.due_jobs(program, self._clock.now(), limit=_JOBS)
        decided, search = 0, FailureIsolation(jobs)
        for part in search:
            try:
                decided += await self._decide_batch([program], jobs=part)
            except Exception as failure:  # noqa: BLE001 - as above
                if not search.halve(failure):
                    decided += await self._postpone(part, failure)
        return decided

    async def _decide_batch(
        self, programs: Sequence[str], *, wait: bool = False, jobs: Sequence[str] | None = None
    ) -> int:
        """One transaction, which locks, reads and stores; the claimed runs are executed after its commit."""
        now, limit = self._clock.now(), _JOBS // len(programs)
        with self._reserve_room() as room:
            async with self._decisions.lock(programs, now=now, limit=limit, wait=wait, jobs=jobs) as batch:
                verdicts = self._plugins.verdicts
                decided = judge_programs(batch.inputs, batch.resources, now=now, plugin_verdicts=verdicts)
                stored = await batch.store(decided, inline=room)
        for program, decisions in stored.decisions.items():
            if decisions:
                self._plugins.evaluate(decisions, now)
                log.info("launcher.decided", program=program, **_counts(decisions))
        for job, reason in stored.failed.items():
            log.error("job.undecided", job=job, reason=reason)
        if self._inline is not None and stored.claimed:
            self._inline.execute(stored.claimed)
        return stored.decided_jobs

    async def _postpone(self, jobs: Sequence[str], failure: Exception) -> int:
        reason = f"it cannot be decided: {describe_failure(failure)}"
        for job in jobs:
            log.error("job.undecided", job=job, reason=reason, exc_info=failure)
        await self._decisions.postpone(dict.fromkeys(jobs, reason), now=self._clock.now())
        return len(jobs)

    @contextmanager
    def _reserve_room(self) -> Generator[InlineRoom | None]:
        """The room of the inline runner, which no other batch gets meanwhile; None without an inline runner."""
        if self._inline is None:
            yield None
            return
        requests = max(0, min(self._inline.room() - self._reserved[0], _JOBS))
        publications = max(0, min(self._inline.publications() - self._reserved[1], _JOBS))
        self._reserved = self._reserved[0] + requests, self._reserved[1] + publications
        try:
            yield InlineRoom(str(self._inline.runner), requests, publications, self._inline.fits)
        finally:
            self._reserved = self._reserved[0] - requests, self._reserved[1] - publications

    async def _step(self) -> float:
        return 0.0 if await self.run_once() else await self._pause()

    async def _sleep(self, subscription: NotifierSubscription, seconds: float) -> None:
        """Returns when another process notifies, when the inline runner has room again, or after `seconds`."""
        if self._inline is None:
            await subscription.wait(seconds)
            return
        waits = [asyncio.create_task(each) for each in (subscription.wait(seconds), self._inline.wait_for_room())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(*waits)

    async def _pause(self) -> float:
        """Seconds until something is due; at least `_LOCKED_RETRY`, because another launcher holds what is due now."""
        times = [await self._decisions.next_due_at(), await self._run_monitor.next_due_at()]
        now = self._clock.now()
        next_due = min((due for due in times if due is not None), default=now + _SWEEP)
        return max(_LOCKED_RETRY, min((next_due - now).total_seconds(), _SWEEP.total_seconds()))


def _batches(due: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """The programs in batches of at most `_JOBS` due jobs, so that several launchers share them."""
    batch, jobs = list[str](), 0
    for program, found in due.items():
        if batch and jobs + found > _JOBS:
            yield batch
            batch, jobs = [], 0
        batch.append(program)
        jobs += found
    if batch:
        yield batch


def _counts(decisions: Sequence[Decision]) -> dict[str, int]:
    return dict(Counter(type(decision).__name__.lower() for decision in decisions))

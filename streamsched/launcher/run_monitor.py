"""Starts a runner process for every PENDING run, and ends every run whose runner is gone.

A run outlives its launcher: any launcher finds it by its heartbeats in PostgreSQL. A silent run becomes LOST only when
its process is known to be gone (on this host) or was silent for `RunTimeouts.elsewhere` (on another): a job never has
two live attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.domain.constraints.pace import Pace
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import SYSTEMIC, InvalidError, UnavailableError, describe_failure
from streamsched.ports.clock import Clock
from streamsched.ports.runner import NO_RUNNER, InlineRunner, RunnerId, Runners
from streamsched.ports.runs import RunEnd
from streamsched.store.runs.run_monitor import RunMonitorStore, SilentRun, UnclaimedRun

log = structlog.get_logger()

#: Most runners started in one pass, which bounds the delay of the next checks.
_AT_ONCE: Final = 256
#: Silent runs read at a time; after so many ends a pass returns, which bounds the delay of the next checks.
_PAGE: Final = 100
#: How often a full host, or one for which jobs wait, checks for room: the end of a process sends no notification.
_FULL: Final = timedelta(milliseconds=250)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeouts:
    """Timeouts and limits of runs.

    Attributes:
        spawns: for each runner process of a run, in order, how long it may take to claim the run; after the last the
            launch has failed.
        silence: a run without a heartbeat for this long is checked.
        elsewhere: a run on another host without a heartbeat for this long is lost.
        attempts: most runs of a job when they are lost, unless its schedule sets another number.
        jitter: a further runner process starts later by up to this fraction of its timeout.
        pace: the rate of runner processes, for all launchers together; None: unlimited.
    """

    spawns: tuple[timedelta, ...] = (timedelta(seconds=15), timedelta(seconds=30), timedelta(seconds=60))
    silence: timedelta = timedelta(seconds=15)
    elsewhere: timedelta = timedelta(minutes=10)
    attempts: int = 3
    jitter: float = 0.2
    pace: Pace | None = None


class RunMonitor:
    """Starts runners and checks runs; several may run at a time. `inline` executes runs that need no process; without
    it they are left to other launchers. While the clock is in doubt no run is too long or silent for too long.
    """

    def __init__(
        self,
        store: RunMonitorStore,
        runners: Runners,
        clock: Clock,
        timeouts: RunTimeouts | None = None,
        *,
        inline: InlineRunner | None = None,
    ) -> None:
        self._store = store
        self._runners = runners
        self._inline = inline
        self._clock = clock
        self._timeouts = timeouts or RunTimeouts()
        self._paced_until: datetime | None = None
        #: Of the last pass: whether no run got a place, and whether jobs wait for room.
        self._nothing_given = self._jobs_wait = False

    async def spawn(self) -> int:
        """Starts a runner process for each PENDING run that needs one now, or passes it to the inline runner; ends
        those that are to stop, and those that no runner claimed. Returns how many were started.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        now = self._clock.now()
        waiting = await self._store.any_wait()
        started = await self._start_pending(now) if waiting.runs else 0
        self._jobs_wait = waiting.jobs and await self._store.wake_for_room(now)
        return started

    async def _start_pending(self, now: datetime) -> int:
        for cancelled in await self._store.cancel_pending(now):
            log.info("run.cancelled", run=cancelled)
        for failed in await self._store.fail_unstarted(now, spawns=len(self._timeouts.spawns)):
            log.error("run.launch_failed", run=failed)
        retry_at = [now + timeout for timeout in self._timeouts.spawns]
        started = await self._claim_inline(now, retry_at)
        wanted: Sequence[UnclaimedRun] = ()
        room = self._room()
        if any(room.values()):
            wanted, self._paced_until = await self._store.next_processes(
                now, retry_at=retry_at, jitter=self._timeouts.jitter, room=room, pace=self._timeouts.pace
            )
        self._nothing_given = not wanted
        for run in wanted:
            try:
                self._runners.spawn(run.run, run.kind)
                log.info("runner.spawned", run=run.run, spawns=run.spawns)
            except UnavailableError as exc:
                log.error("runner.spawn_failed", run=run.run, spawns=run.spawns, reason=str(exc))
                await self._store.record_spawn_failure(run.run, str(exc), now=now)
        return started + len(wanted)

    async def next_due_at(self) -> datetime | None:
        """When `spawn` has work; while runs or jobs wait for room, when to check it; never before the pace permits."""
        full = self._clock.now() + _FULL
        due, inline_due = await self._store.next_spawns()
        if due is not None and self._paced_until is not None:
            due = max(due, self._paced_until)
        if due is not None and (self._nothing_given or not any(self._room().values())):
            due = max(due, full)
        if self._jobs_wait:
            due = full if due is None else min(due, full)
        if self._inline is None:
            inline_due = None
        elif inline_due is not None and not self._inline.room():
            inline_due = max(inline_due, full)
        return min((each for each in (due, inline_due) if each is not None), default=None)

    async def check_runs(self) -> Sequence[str]:
        """Requests a stop of runs past their deadline, and ends those whose runner is gone; returns the ids of the
        latter.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        now = self._clock.now()
        await self._write_fences(now)
        if not self._clock.in_doubt:
            for late in await self._store.stop_overdue(now):
                log.warning("run.overdue", run=late)
        ended: list[str] = []
        living: dict[RunnerId, bool | None] = {}
        page: Sequence[SilentRun] = await self._store.silent_runs(now - self._timeouts.silence, limit=_PAGE)
        while page:
            for run in page:
                try:
                    if await self._end(run, now, living):
                        ended.append(run.run)
                except SYSTEMIC:
                    raise
                except Exception as exc:  # noqa: BLE001 - its row may hold anything; the other runs are checked
                    log.error("run.end_failed", run=run.run, reason=describe_failure(exc))
            if len(ended) >= _PAGE:
                break
            page = await self._store.silent_runs(now - self._timeouts.silence, limit=_PAGE, behind=page[-1])
        return ended

    async def _write_fences(self, now: datetime) -> None:
        room = self._runners.fence_room()
        for run in await self._store.due_fences(now, limit=room) if room else ():
            try:
                self._runners.fence(run)
            except UnavailableError as exc:
                log.error("fence.not_started", run=run, reason=str(exc))

    def _room(self) -> Mapping[ProcessKind, int]:
        return {kind: min(self._runners.room(kind), _AT_ONCE) for kind in ProcessKind}

    async def _claim_inline(self, now: datetime, retry_at: Sequence[datetime]) -> int:
        """Passes PENDING runs to the inline runner; `RunTimeouts.pace` limits processes only."""
        room = 0 if self._inline is None else self._inline.room()
        if self._inline is None or not room:
            return 0
        wanted = await self._store.claim_inline(
            now, retry_at=retry_at, jitter=self._timeouts.jitter, limit=room, inline_by=str(self._inline.runner)
        )
        self._inline.claim_and_execute([run.run for run in wanted])
        return len(wanted)

    def _is_alive(self, run: SilentRun, runner: RunnerId, living: dict[RunnerId, bool | None]) -> bool | None:
        """None: it runs on another host. `living` has the answers of this pass: a launcher may have thousands of runs,
        and the answer is a read from `/proc`.
        """
        if self._inline is not None and runner == self._inline.runner:
            return self._inline.holds(run.run)  # False: its admission was stored, but the answer was lost
        if runner not in living:
            living[runner] = self._runners.is_alive(runner)
        return living[runner]

    async def _end(self, run: SilentRun, now: datetime, living: dict[RunnerId, bool | None]) -> bool:
        runner = RunnerId.parse(run.runner)
        alive = self._is_alive(run, runner, living)
        if alive:
            return False  # it is paused or cannot reach PostgreSQL, and continues when it can
        try:
            ending = self._runners.end_note(run.run)
        except UnavailableError as exc:
            log.error("run.end_note_unreadable", run=run.run, reason=str(exc))
            return False
        if ending is not None:
            return await self._finish(run.run, ending, now)
        silent_for = now - run.heartbeat_at
        waits = silent_for < self._timeouts.elsewhere or self._clock.in_doubt
        if alive is None and runner != NO_RUNNER and waits:
            return False
        why = f"its runner {runner} is gone" if alive is False else f"its runner {runner} was silent for {silent_for}"
        if run.detached:
            await self._continue(run, why, now)
            return False
        lost = await self._store.mark_lost(run, why, now=now, attempts=self._timeouts.attempts)
        if lost is None:
            return False  # another launcher was first, or it is back
        if lost.done:
            log.warning("run.completed_by_commits", run=run.run, reason=why)
        else:
            log.error("run.marked_lost", run=run.run, reason=why, next_run=lost.next_run)
        return True

    async def _continue(self, run: SilentRun, why: str, now: datetime) -> None:
        """Starts a runner process that goes on with a run whose driver is in a cluster. If none claims the run, it is
        silent again later.
        """
        if not self._runners.room(ProcessKind.CLUSTER) or not await self._store.release_runner(run, why, now=now):
            return
        log.warning("run.unattended", run=run.run, reason=why)
        try:
            self._runners.spawn(run.run, ProcessKind.CLUSTER)
        except UnavailableError as exc:
            log.error("runner.spawn_failed", run=run.run, reason=str(exc))
            await self._store.record_spawn_failure(run.run, str(exc), now=now)

    async def _finish(self, run: str, ending: RunEnd, now: datetime) -> bool:
        try:
            return await self._store.finish(run, ending)
        except InvalidError as exc:
            log.error("run.end_refused", run=run, reason=str(exc))
            return await self._store.finish(run, ending.drop_texts(now))

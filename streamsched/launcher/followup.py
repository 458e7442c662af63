"""Follow-up: every PENDING run gets a runner process, and every run whose runner fell silent gets an end.

A run that goes on after its launcher died is found through its heartbeats; there is nothing to re-attach but the row.
A silent run is LOST only when its process is really gone (on this host), or silent beyond all patience (on another):
never two live attempts of one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.domain.errors import ConflictError, InvalidError, UnavailableError
from streamsched.domain.pace import Pace
from streamsched.ports.clock import Clock
from streamsched.ports.runner import Hands, RunnerId, Runners
from streamsched.ports.runs import Ending, FollowUpBook, Silent

log = structlog.get_logger()

#: How many runners are started in one pass at most, so that the next checks are not kept waiting.
_AT_ONCE: Final = 256
#: How many silent runs are read at a time, and so many ends at most keep one pass from the next checks.
_PAGE: Final = 100
#: When a full host looks for room again: the end of a process rings no bell.
_FULL: Final = timedelta(milliseconds=250)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long what is waited for.

    Attributes:
        spawns: after each runner process that was started, how long it may take to claim its run; when all were in
            vain the launch has failed.
        silence: without a heartbeat for this long, a run is looked after.
        elsewhere: and on a host that is not ours it is lost after this long.
        attempts: so many runs a job gets when they are lost, unless its schedule says otherwise.
        jitter: a further runner process comes later than said by up to this share, so that not all come at once.
        pace: how quickly runner processes may follow each other, of all launchers together; None: at any.
    """

    spawns: tuple[timedelta, ...] = (timedelta(seconds=15), timedelta(seconds=30), timedelta(seconds=60))
    silence: timedelta = timedelta(seconds=15)
    elsewhere: timedelta = timedelta(minutes=10)
    attempts: int = 3
    jitter: float = 0.2
    pace: Pace | None = None


class FollowUp:
    """Starts runners and looks after runs; any number may work side by side. `hands` execute what needs no process;
    without any, such runs are left for other launchers.
    """

    def __init__(
        self,
        book: FollowUpBook,
        runners: Runners,
        clock: Clock,
        patience: Patience | None = None,
        *,
        hands: Hands | None = None,
    ) -> None:
        self._book = book
        self._runners = runners
        self._hands = hands
        self._clock = clock
        self._patience = patience or Patience()
        self._paced_until: datetime | None = None

    async def spawn(self) -> int:
        """Starts a runner process for each PENDING run that wants one now, or gives it to hands; ends those that
        somebody wants to end, and those for which that was in vain often enough. Returns how many were started.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        now = self._clock.now()
        for unwanted in await self._book.put_down(now):
            log.info("run.put_down", run=unwanted)
        for hopeless in await self._book.give_up(now, spawns=len(self._patience.spawns)):
            log.error("launch.failed", run=hopeless)
        retry_at = [now + patience for patience in self._patience.spawns]
        taken = await self._take(now, retry_at)
        room = min(self._runners.room(), _AT_ONCE)
        if not room:
            return taken
        wanted, self._paced_until = await self._book.unclaimed(
            now, retry_at=retry_at, jitter=self._patience.jitter, limit=room, pace=self._patience.pace
        )
        for run in wanted:
            try:
                self._runners.spawn(run.run)
                log.info("runner.spawned", run=run.run, spawns=run.spawns)
            except UnavailableError as exc:
                log.error("runner.not_spawned", run=run.run, spawns=run.spawns, reason=str(exc))
                await self._book.spawn_failed(run.run, str(exc), now=now)
        return taken + len(wanted)

    async def next_due(self) -> datetime | None:
        """When `spawn` has something to do; while this host is full, when to look for room again; never before the pace
        lets the next process through.
        """
        full = self._clock.now() + _FULL
        due = await self._book.next_spawn()
        if due is not None and self._paced_until is not None:
            due = max(due, self._paced_until)
        if due is not None and not self._runners.room():
            due = max(due, full)
        quick = None if self._hands is None else await self._book.next_spawn(quick=True)
        if quick is not None and self._hands is not None and not self._hands.room():
            quick = max(quick, full)
        return min((each for each in (due, quick) if each is not None), default=None)

    async def look_after(self) -> Sequence[str]:
        """Wants runs to end that are past their deadline, and ends those whose runner is gone; returns the ids of the
        latter.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        now = self._clock.now()
        for late in await self._book.overdue(now):
            log.warning("run.overdue", run=late)
        ended: list[str] = []
        page: Sequence[Silent] = await self._book.silent(now - self._patience.silence, limit=_PAGE)
        while page:
            for run in page:
                try:
                    if await self._end(run, now):
                        ended.append(run.run)
                except (ConflictError, InvalidError) as exc:  # said aloud, and no other run waits for it
                    log.error("run.not_ended", run=run.run, reason=str(exc))
            if len(ended) >= _PAGE:
                break
            page = await self._book.silent(now - self._patience.silence, limit=_PAGE, behind=page[-1])
        return ended

    async def _take(self, now: datetime, retry_at: Sequence[datetime]) -> int:
        """Gives hands what waits for them; the pace is that of processes, not theirs."""
        room = 0 if self._hands is None else self._hands.room()
        if self._hands is None or not room:
            return 0
        wanted, _ = await self._book.unclaimed(
            now, retry_at=retry_at, jitter=self._patience.jitter, limit=room, quick=True
        )
        self._hands.take([run.run for run in wanted])
        return len(wanted)

    def _alive(self, run: Silent, runner: RunnerId) -> bool | None:
        """None: nobody here can know."""
        if self._hands is not None and runner == self._hands.runner:
            return self._hands.holds(run.run)  # no: its admission was stored, but never answered
        return self._runners.alive(runner)

    async def _end(self, run: Silent, now: datetime) -> bool:
        runner = RunnerId.parse(run.runner)
        alive = self._alive(run, runner)
        if alive:
            return False  # it cannot reach PostgreSQL, or is paused: it goes on when it can
        try:
            ending = self._runners.ending(run.run)
        except UnavailableError as exc:
            log.error("run.note_unreadable", run=run.run, reason=str(exc))
            return False
        if ending is not None:
            return await self._finish(run.run, ending, now)
        silent_for = now - run.heartbeat_at
        if alive is None and silent_for < self._patience.elsewhere:
            return False
        gone = f"its runner {runner} is gone" if alive is False else f"its runner {runner} was silent for {silent_for}"
        again = await self._book.lose(run, gone, now=now, attempts=self._patience.attempts)
        log.error("run.lost", run=run.run, reason=gone, again=again)
        return True

    async def _finish(self, run: str, ending: Ending, now: datetime) -> bool:
        try:
            return await self._book.finish(run, ending)
        except InvalidError as exc:
            log.error("run.end_refused", run=run, reason=str(exc))
            return await self._book.finish(run, ending.bare(now))

"""One clock for every process of an installation: PostgreSQL's, counted by each process's monotonic clock (ADR 7).

The machine's own clock is never the time. It is a witness: at the start of a process, and for large jumps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import structlog

from streamsched.domain.clock_judge import ClockFact, ClockMeasurement, ClockView, judge_clock
from streamsched.domain.errors import UnavailableError
from streamsched.ports.clock import Clock, monotonic
from streamsched.store.server.clock_judgements import ClockJudgements, ClockState

log = structlog.get_logger()

#: Seconds between two measurements, and while the clock is in doubt.
_EVERY: Final = 5.0
_SOON: Final = 1.0
#: A larger difference from the machine's own clock is logged.
_FAR: Final = timedelta(seconds=1)
#: Measurements of one comparison: a judgement that was stored, by this process or another, is followed at once.
_MOST: Final = 4


class PostgresClock:
    """`ports.clock.Clock`. Between two measurements it is ahead of PostgreSQL's by at most the drift since then, and
    behind by at most the time of the answer; while that clock is in doubt, it goes on as it was.

    Before the first measurement it is the machine's clock, in doubt.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        own: Clock,
        *,
        name: str = "",
        counted: Callable[[], float] = monotonic,
        judgements: ClockJudgements | None = None,
    ) -> None:
        """`own`: the machine's clock. `name`: of this process, in judgements. `counted`: its monotonic clock, in
        seconds.
        """
        self._judgements = judgements or ClockJudgements(pool)
        self._own = own
        self._name = name
        self._counted = counted
        self._view: ClockView | None = None
        self._state: ClockState | None = None
        #: How far the machine's clock was ahead at the last measurement.
        self.own_ahead = timedelta(0)

    def now(self) -> datetime:
        return self._own.now() if self._view is None else self._view.now(self._counted())

    @property
    def in_doubt(self) -> bool:
        """Whether PostgreSQL's clock is in doubt, so that nothing may end because of time."""
        return self._view is None or self._view.in_doubt

    @property
    def lead(self) -> timedelta:
        """How far PostgreSQL's clock is ahead of `now`; 0 unless it jumped."""
        return timedelta(0) if self._view is None else self._view.ahead

    @property
    def judgement(self) -> int:
        """The number of the last judgement that this process follows."""
        return 0 if self._view is None else self._view.number

    @property
    def doubt(self) -> str | None:
        """What is wrong with PostgreSQL's clock; None: nothing."""
        return None if self._state is None else self._state.doubt

    def database_time(self) -> datetime | None:
        """What PostgreSQL's clock should say, right or wrong; None before the first measurement."""
        return None if self._view is None else self._view.database_time(self._counted())

    def steady(self) -> datetime | None:
        """The same; None while the clock has jumped lately, so that leases by it do not end."""
        view, counted = self._view, self._counted()
        return view.database_time(counted) if view is not None and view.is_steady(counted) else None

    async def compare(self) -> None:
        """Measures PostgreSQL's clock and judges it.

        Raises:
            UnavailableError: PostgreSQL is unavailable; time is counted on.
        """
        for _ in range(_MOST):
            before = self._counted()
            state = await self._judgements.state()
            found = ClockMeasurement(state.theirs, before, self._counted(), self._own.now())
            was = self._view
            self._view, proposal = judge_clock(was, found, state.record)
            self._state = state
            self._log(was, self._view, found, state)
            if proposal is None:
                return
            at = self._view.now(found.after)
            await self._judgements.judge(proposal, theirs=found.theirs, at=at, by=self._name)

    async def begin(self) -> None:
        """The first measurement. On a machine whose own clock says another time it waits until other processes would
        have said that PostgreSQL's clock has jumped.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call it again.
        """
        await self.compare()
        while self.in_doubt and not self.lead:
            await asyncio.sleep(_SOON)
            await self.compare()

    async def run(self) -> None:
        """Measures every few seconds, until cancelled."""
        while True:
            try:
                await self.compare()
            except UnavailableError as exc:
                log.debug("clock.unavailable", reason=str(exc))
            await asyncio.sleep(_SOON if self.in_doubt else _EVERY)

    def _log(self, was: ClockView | None, view: ClockView, found: ClockMeasurement, state: ClockState) -> None:
        counted = found.theirs if was is None else was.now(found.after)
        if state.fact is not None and (view.ahead if was is None else view.number != was.number):
            write = log.error if state.fact is ClockFact.JUMPED else log.warning
            write(
                f"clock.{state.fact}",
                database=f"{found.theirs:%Y-%m-%d %H:%M:%S.%f}Z",
                counted=f"{counted:%Y-%m-%d %H:%M:%S.%f}Z",
                ahead_s=round(view.ahead.total_seconds(), 3),
                judged_by=state.judged_by,
            )
        if was is not None and was.in_doubt and not view.in_doubt:
            log.info("clock.certain", now=f"{view.now(found.after):%Y-%m-%d %H:%M:%S.%f}Z")
        before, self.own_ahead = self.own_ahead, found.own - view.now(found.after)
        if abs(self.own_ahead) > _FAR and abs(self.own_ahead - before) > _FAR:
            log.warning("clock.differs", ahead_s=round(self.own_ahead.total_seconds(), 3))

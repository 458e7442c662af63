"""The launcher's loop: due jobs are judged, program by program; admitted ones get their runner process.

It sleeps until the next check is due or a bell rings (a job came in, a run ended, a schedule changed), and sweeps now
and then in case a bell was not heard. Any number of launchers share the work by the programs' locks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from streamsched.domain.docket import Ruling
from streamsched.domain.errors import ConflictError, InvalidError, UnavailableError
from streamsched.launcher.advice import Advice
from streamsched.launcher.followup import FollowUp
from streamsched.launcher.judge import judge
from streamsched.ports.bell import LAUNCHER, Bell
from streamsched.ports.clock import Clock
from streamsched.ports.jobs import Decisions

log = structlog.get_logger()

_PROGRAMS: Final = 64
_JOBS_OF_PROGRAM: Final = 256
#: Seconds until a launcher looks again at a program another one holds this instant.
_HELD: Final = 0.02
_AWAY: Final = 1.0
#: How often silent runs are looked after.
_SWEEP: Final = timedelta(seconds=5)
#: How often the sweep behind the wake-ups is made, and how long a job waits for a wake-up before it looks.
_RECALL: Final = timedelta(seconds=30)
_UNWOKEN: Final = timedelta(seconds=60)
#: How long jobs are put off when what the store says of them cannot be read.
_UNREADABLE: Final = timedelta(seconds=60)


class Launcher:
    """Decides and launches; belongs to one task."""

    def __init__(
        self, decisions: Decisions, followup: FollowUp, bell: Bell, clock: Clock, advice: Advice | None = None
    ) -> None:
        self._decisions = decisions
        self._followup = followup
        self._bell = bell
        self._clock = clock
        self._advice = advice or Advice({}, decisions, clock)
        self._swept_at: datetime | None = None
        self._recalled_at: datetime | None = None

    async def run(self) -> None:
        """Decides and launches until cancelled; while PostgreSQL is away it waits for it."""
        async with self._bell.listen(LAUNCHER) as ring:
            while True:
                try:
                    ruled = await self.run_once()
                    pause = 0.0 if ruled else await self._pause()
                except UnavailableError as exc:
                    log.warning("launcher.unavailable", reason=str(exc), again_in=_AWAY)
                    pause = _AWAY
                if pause:
                    await ring.wait(pause)

    async def run_once(self) -> int:
        """One pass: sweeps when it is time, judges what is due, starts runners, looks after silent runs. Returns how
        many jobs were ruled on; with more than none, more may be due.

        Raises:
            UnavailableError: PostgreSQL is away; call again.
        """
        now = self._clock.now()
        if self._swept_at is None or now - self._swept_at >= _SWEEP:
            await self._followup.look_after()
            self._swept_at = now
        if self._recalled_at is None or now - self._recalled_at >= _RECALL:
            await self._decisions.recall(before=now - _UNWOKEN)
            self._recalled_at = now
        ruled = 0
        for program in await self._decisions.due(now, limit=_PROGRAMS):
            ruled += await self._decide(program)
        await self._followup.spawn()
        return ruled

    async def _decide(self, program: str) -> int:
        now = self._clock.now()
        try:
            rulings = await self._decisions.decide(
                program, now=now, limit=_JOBS_OF_PROGRAM, judge=partial(judge, now=now, opinions=self._advice.opinions)
            )
        except ConflictError as exc:  # somebody changed a job in between: nothing was done, the next pass sees it
            log.warning("launcher.overtaken", program=program, reason=str(exc))
            return 0
        except InvalidError as exc:  # what stands in the store cannot be read: said aloud, and nobody else waits for it
            log.error("launcher.unreadable", program=program, path=exc.path, reason=exc.reason)
            until = now + _UNREADABLE
            await self._decisions.defer(program, f"it cannot be decided: {exc}", now=now, until=until)
            return 0
        if rulings:
            self._advice.heed(rulings, now)
            log.info("launcher.ruled", program=program, **_counts(rulings))
        return len(rulings or ())

    async def _pause(self) -> float:
        """Seconds until something is due; at least a moment, for what is due now is held by another launcher."""
        times = [await self._decisions.next_due(), await self._followup.next_due()]
        now = self._clock.now()
        soonest = min((due for due in times if due is not None), default=now + _SWEEP)
        return max(_HELD, min((soonest - now).total_seconds(), _SWEEP.total_seconds()))


def _counts(rulings: Sequence[Ruling]) -> dict[str, int]:
    return dict(Counter(type(ruling).__name__.lower() for ruling in rulings))

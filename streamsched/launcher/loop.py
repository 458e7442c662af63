"""The launcher's loop: due jobs are judged, program by program; admitted ones get their runner process.

It sleeps until the next check is due or a bell rings (a job came in, a run ended, a schedule changed), and sweeps now
and then in case a bell was not heard. Any number of launchers share the work by the programs' locks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.domain.docket import Ruling
from streamsched.domain.errors import ConflictError, InvalidError
from streamsched.launcher.advice import Advice
from streamsched.launcher.followup import FollowUp
from streamsched.launcher.judge import judge
from streamsched.ports.bell import LAUNCHER, Bell
from streamsched.ports.clock import Clock
from streamsched.ports.jobs import Decisions, Inside
from streamsched.ports.runner import Hands

log = structlog.get_logger()

#: So many programs are decided in one pass, and so many jobs in one transaction, whatever their programs.
_PROGRAMS: Final = 64
_JOBS: Final = 512
#: How many sittings are under way: while PostgreSQL stores one, the next is judged.
_LANES: Final = 2
#: Seconds until a launcher looks again at a program another one holds this instant.
_HELD: Final = 0.02
#: How often silent runs are looked after.
_SWEEP: Final = timedelta(seconds=5)
#: How often the sweep behind the wake-ups is made, and how long a job waits for a wake-up before it looks.
_RECALL: Final = timedelta(seconds=30)
_UNWOKEN: Final = timedelta(seconds=60)
#: How long jobs are put off when what the store says of them cannot be read.
_UNREADABLE: Final = timedelta(seconds=60)


class Launcher:
    """Decides and launches; belongs to one task. With `hands`, what they can execute begins with its admission."""

    def __init__(
        self,
        decisions: Decisions,
        followup: FollowUp,
        bell: Bell,
        clock: Clock,
        advice: Advice | None = None,
        *,
        hands: Hands | None = None,
    ) -> None:
        self._decisions = decisions
        self._followup = followup
        self._bell = bell
        self._clock = clock
        self._advice = advice or Advice({}, decisions, clock)
        self._hands = hands
        self._promised = 0
        self._swept_at: datetime | None = None
        self._recalled_at: datetime | None = None

    async def run(self) -> None:
        """Decides and launches until cancelled; while PostgreSQL is away it waits for it."""
        async with self._bell.listen(LAUNCHER) as ring:
            await attend(self._look, rest=ring.wait, called="launcher")

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
        due = await self._decisions.due(now, limit=_PROGRAMS)
        sittings = _sittings(due)
        ended = await asyncio.gather(*(self._lane(sittings) for _ in range(_LANES)), return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each
        ruled = sum(each for each in ended if isinstance(each, int))
        if due and not ruled:  # all of them are held just now: better to be the next than to ask again and again
            ruled = await self._decide(next(_sittings(due)), wait=True)
        await self._followup.spawn()
        return ruled

    async def _lane(self, sittings: Iterator[Sequence[str]]) -> int:
        return sum([await self._decide(programs) for programs in sittings])

    async def _decide(self, programs: Sequence[str], *, wait: bool = False) -> int:
        """Decides about several programs at once; one by one when that fails for one of them."""
        now = self._clock.now()
        inside = self._inside()
        promised = 0 if inside is None else inside.room
        self._promised += promised
        try:
            sitting = await self._decisions.decide(
                programs,
                now=now,
                limit=_JOBS // len(programs),
                judge=partial(judge, now=now, opinions=self._advice.opinions),
                inside=inside,
                wait=wait,
            )
        except (ConflictError, InvalidError) as exc:
            if len(programs) > 1:
                return sum([await self._decide([program]) for program in programs])
            await self._put_off(programs[0], exc, now)
            return 0
        finally:
            self._promised -= promised
        for program, rulings in sitting.rulings.items():
            if rulings:
                self._advice.heed(rulings, now)
                log.info("launcher.ruled", program=program, **_counts(rulings))
        if self._hands is not None and sitting.begun:
            self._hands.begin(sitting.begun)
        return sitting.ruled

    async def _put_off(self, program: str, exc: ConflictError | InvalidError, now: datetime) -> None:
        if isinstance(exc, ConflictError):  # somebody changed a job in between: nothing was done, the next pass sees it
            log.warning("launcher.overtaken", program=program, reason=str(exc))
            return
        # what stands in the store cannot be read: said aloud, and nobody else waits for it
        log.error("launcher.unreadable", program=program, path=exc.path, reason=exc.reason)
        until = now + _UNREADABLE
        await self._decisions.defer(program, f"it cannot be decided: {exc}", now=now, until=until)

    def _inside(self) -> Inside | None:
        if self._hands is None:
            return None
        room = max(0, min(self._hands.room() - self._promised, _JOBS))
        return Inside(str(self._hands.runner), room, self._hands.fits)

    async def _look(self) -> float:
        return 0.0 if await self.run_once() else await self._pause()

    async def _pause(self) -> float:
        """Seconds until something is due; at least a moment, for what is due now is held by another launcher."""
        times = [await self._decisions.next_due(), await self._followup.next_due()]
        now = self._clock.now()
        soonest = min((due for due in times if due is not None), default=now + _SWEEP)
        return max(_HELD, min((soonest - now).total_seconds(), _SWEEP.total_seconds()))


def _sittings(due: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """The programs in portions of so many jobs, so that several launchers find their share."""
    portion, jobs = list[str](), 0
    for program, found in due.items():
        if portion and jobs + found > _JOBS:
            yield portion
            portion, jobs = [], 0
        portion.append(program)
        jobs += found
    if portion:
        yield portion


def _counts(rulings: Sequence[Ruling]) -> dict[str, int]:
    return dict(Counter(type(ruling).__name__.lower() for ruling in rulings))

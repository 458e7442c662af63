"""What befalls an installation, and how often."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from tests.faults.installation.crew import Crew, chosen
from tests.faults.installation.ground import LEASE_S


class How(StrEnum):
    """Killed and back at once, or back when others have taken over; or standing still for longer than a lease lasts."""

    QUICK = "quick"
    LATE = "late"
    STOP = "stop"


class Who(StrEnum):
    WORKER = "worker"
    LAUNCHER = "launcher"
    API = "api"
    EMITTER = "emitter"
    POSTGRES = "postgres"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Misfortune:
    who: Who
    how: How

    def __str__(self) -> str:
        return f"{self.who} {self.how}"


_ROLES: Final = tuple(Misfortune(who, how) for who in (Who.WORKER, Who.LAUNCHER) for how in How)
_OTHERS: Final = (
    Misfortune(Who.API, How.QUICK),
    Misfortune(Who.API, How.STOP),
    Misfortune(Who.EMITTER, How.QUICK),
    Misfortune(Who.POSTGRES, How.QUICK),
    Misfortune(Who.POSTGRES, How.LATE),
)


def known(*, kafka: bool) -> tuple[Misfortune, ...]:
    """All there are."""
    log = (Misfortune(Who.KAFKA, How.QUICK), Misfortune(Who.KAFKA, How.LATE)) if kafka else ()
    return (*_ROLES, *_OTHERS, *log)


@dataclass(slots=True)
class Misfortunes:
    """Deals them in a random order, each once before any comes again."""

    dice: random.Random
    of: tuple[Misfortune, ...]
    left: list[Misfortune] = field(default_factory=list)
    met: Counter[Misfortune] = field(default_factory=Counter)

    def next(self) -> Misfortune:
        if not self.left:
            self.left = self.dice.sample(self.of, len(self.of))
        return self.left.pop()

    @property
    def kills(self) -> int:
        return self.met.total() - self.stops

    @property
    def stops(self) -> int:
        return sum(times for each, times in self.met.items() if each.how is How.STOP)


async def strike(crew: Crew, what: Misfortune, dice: random.Random) -> None:
    """It happens now; returns when all are there again."""
    crew.named = dice.random() < 0.5
    late = dice.uniform(1.5, 2.5) * LEASE_S if what.how is How.LATE else dice.uniform(0.0, 0.5)
    match what.who:
        case Who.WORKER | Who.LAUNCHER | Who.API if what.how is How.STOP:
            process = crew.running[chosen(dice, what.who)]
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(dice.uniform(2, 3) * LEASE_S)
            process.send_signal(signal.SIGCONT)
        case Who.WORKER | Who.LAUNCHER | Who.API:
            place = chosen(dice, what.who)
            crew.kill(place)
            await asyncio.sleep(late)
            crew.start_role(place)
        case Who.EMITTER:
            emitter = dice.choice(crew.emitters.all)
            await emitter.kill()
            await asyncio.sleep(late)
            await emitter.start()
        case Who.POSTGRES:
            how = dice.choice((signal.SIGQUIT, signal.SIGQUIT, signal.SIGKILL))
            await asyncio.to_thread(crew.ground.kill_postgres, how)
            await asyncio.sleep(late)
            await asyncio.to_thread(crew.ground.start_postgres)
        case Who.KAFKA:
            cluster = crew.ground.cluster
            assert cluster is not None
            node = dice.choice(cluster.numbers)
            await asyncio.to_thread(cluster.kill, node)
            await asyncio.sleep(late)
            await asyncio.to_thread(cluster.start, node)
        case _:
            assert_never(what.who)

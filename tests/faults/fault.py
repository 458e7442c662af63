"""What befalls an installation, and how often."""

from __future__ import annotations

import asyncio
import random
import signal
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from tests.faults.processes.installation import Processes, chosen
from tests.faults.sites.installation_site import LEASE_S


class How(StrEnum):
    """Killed and back at once, or back when others have taken over; or standing still for longer than a lease lasts."""

    QUICK = "quick"
    LATE = "late"
    STOP = "stop"


class Who(StrEnum):
    WORKER = "worker"
    LAUNCHER = "launcher"
    RELAY = "relay"  # the launcher that has this role, between its two writes
    API = "api"
    EMITTER = "emitter"
    POSTGRES = "postgres"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Fault:
    who: Who
    how: How

    def __str__(self) -> str:
        return f"{self.who} {self.how}"


_ROLES: Final = tuple(Fault(who, how) for who in (Who.WORKER, Who.LAUNCHER) for how in How)
_OTHERS: Final = (
    Fault(Who.RELAY, How.QUICK),
    Fault(Who.RELAY, How.LATE),
    Fault(Who.API, How.QUICK),
    Fault(Who.API, How.STOP),
    Fault(Who.EMITTER, How.QUICK),
    Fault(Who.POSTGRES, How.QUICK),
    Fault(Who.POSTGRES, How.LATE),
)


#: Seconds within which the relay has something to do, under load.
_RELAYED_S: Final = 20.0


def known(*, kafka: bool) -> tuple[Fault, ...]:
    """All there are."""
    log = (Fault(Who.KAFKA, How.QUICK), Fault(Who.KAFKA, How.LATE)) if kafka else ()
    return (*_ROLES, *_OTHERS, *log)


@dataclass(slots=True)
class RandomFaults:
    """Deals them in a random order, each once before any comes again."""

    rng: random.Random
    of: tuple[Fault, ...]
    left: list[Fault] = field(default_factory=list)

    def next(self) -> Fault:
        if not self.left:
            self.left = self.rng.sample(self.of, len(self.of))
        return self.left.pop()


async def strike(processes: Processes, what: Fault, rng: random.Random) -> None:
    """It happens now; returns when all are there again."""
    processes.named = rng.random() < 0.5
    late = rng.uniform(1.5, 2.5) * LEASE_S if what.how is How.LATE else rng.uniform(0.0, 0.5)
    match what.who:
        case Who.WORKER | Who.LAUNCHER | Who.API if what.how is How.STOP:
            place = chosen(rng, what.who)
            await processes.placed.pause(place, rng.uniform(2, 3) * LEASE_S)
        case Who.WORKER | Who.LAUNCHER | Who.API:
            place = chosen(rng, what.who)
            await processes.kill(place)
            await asyncio.sleep(late)
            processes.start_role(place)
        case Who.RELAY:
            relay = await processes.kill_relay(_RELAYED_S)
            await asyncio.sleep(late)
            if relay is not None:
                processes.start_role(relay)
        case Who.EMITTER:
            emitter = rng.choice(processes.emitters.all)
            await emitter.kill()
            await asyncio.sleep(late)
            await emitter.start()
        case Who.POSTGRES:
            how = rng.choice((signal.SIGQUIT, signal.SIGQUIT, signal.SIGKILL))
            await asyncio.to_thread(processes.site.kill_postgres, how)
            await asyncio.sleep(late)
            await asyncio.to_thread(processes.site.start_postgres)
        case Who.KAFKA:
            cluster = processes.site.cluster
            assert cluster is not None
            node = rng.choice(cluster.numbers)
            await asyncio.to_thread(cluster.kill, node)
            await asyncio.sleep(late)
            await asyncio.to_thread(cluster.start, node)
        case _:
            assert_never(what.who)

"""One trial: an app of some hundred schedules, some thousand events, changes meanwhile, and faults."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import asyncpg
import httpx

from streamsched.domain.names import AppRef
from tests.faults.fault import RandomFaults, strike
from tests.faults.judges.backfills import judge_backfills
from tests.faults.judges.homes import judge_changes, judge_homes, judge_ticks
from tests.faults.judges.jobs import Left, Stored, judge_jobs, stored
from tests.faults.judges.log import AWAY_S, Log
from tests.faults.judges.requests import judge_requests
from tests.faults.judges.runs import judge_held, judge_lanes, judge_published, judge_runs
from tests.faults.load.generated_schedules import Evidence, GeneratedSchedules, lane_of, timeout_of
from tests.faults.load.requests import Requests
from tests.faults.load.traffic import Traffic
from tests.faults.load.user import User
from tests.faults.processes.installation import Processes
from tests.faults.sites.counting_server import CountingServer
from tests.judgement import Judgement

SCHEDULES: Final = 200
#: Events a second, and how many at least.
RATE: Final = 250
EVENTS: Final = 1000
#: After that long without anything having moved, what is missing is lost.
SETTLE_S: Final = 90.0
#: What has been doubled or wrong in the same way for that long is so.
WRONG_S: Final = 20.0
#: And when something is, ever something else, for that long.
EVER_WRONG_S: Final = 60.0
_BATCH: Final = 20


@dataclass(slots=True)
class Trial:
    """What a trial needs, shared with the others."""

    processes: Processes
    log: Log
    pool: asyncpg.Pool
    client: httpx.AsyncClient
    faults: RandomFaults
    called: CountingServer
    url: str
    schedules: int = SCHEDULES
    events: int = EVENTS

    async def play(self, number: int, seed: int) -> Played:
        """One trial, from its deployment to its verdict."""
        rng = random.Random(f"{seed}-{number}")
        name, started = f"t{number}", time.monotonic()
        site = self.processes.site
        evidence = Evidence(str(site.started), str(site.serial), self.url)
        generated = GeneratedSchedules(AppRef("default", name), rng, evidence)
        user = User(generated, random.Random(f"{seed}-{number}-user"), self.client)
        traffic = Traffic(name, random.Random(f"{seed}-{number}-events"))
        requests = Requests(generated, random.Random(f"{seed}-{number}-requests"), self.client)
        requests.paused = user.settled
        self.log.begin(name)
        in_flight = self.processes.in_flight
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep())
            await user.deploy(generated.definition(self.schedules))
            met = await self._disturb(user, requests, traffic, rng)
            emitted = time.monotonic()
            verdict, there = await self._settled(user, requests, traffic, in_flight)
            keeping.cancel()
        return Played(
            met,
            traffic,
            user,
            requests,
            verdict,
            self._longest_wait(traffic),
            len(self.log.jobs),
            emitted - started,
            there.calls.total(),
            there.repeated,
            self.processes.in_flight - in_flight,
        )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(0.3)
            await self.processes.revive()

    async def _disturb(self, user: User, requests: Requests, traffic: Traffic, rng: random.Random) -> list[str]:
        """Events, changes and requests, and faults among them."""
        enough, healed = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._emit(user, traffic, healed))
            group.create_task(user.meddle(enough))
            group.create_task(requests.ask(enough))
            met: list[str] = []
            for _ in range(rng.choice((1, 1, 2))):
                await asyncio.sleep(rng.uniform(0.5, 3.0))
                what = self.faults.next()
                await strike(self.processes, what, rng)
                self.faults.met[what] += 1
                met.append(str(what))
            await asyncio.sleep(1)
            healed.set()
            enough.set()
        await requests.backfills.resume_all()
        return met

    async def _emit(self, user: User, traffic: Traffic, healed: asyncio.Event) -> None:
        began, batches = time.monotonic(), 0
        while not healed.is_set() or len(traffic.emitted) < self.events:
            events = [traffic.event(changes=len(user.returned)) for _ in range(_BATCH)]
            self.processes.emitters.say(events, traffic.rng)
            batches += 1
            late = 0.0 if len(traffic.emitted) < self.events else 0.5  # only so that something comes until all are back
            await asyncio.sleep(max(late, began + batches * _BATCH / RATE - time.monotonic()))

    async def _settled(
        self, user: User, requests: Requests, traffic: Traffic, in_flight: int
    ) -> tuple[Judgement, Stored]:
        """The verdict, as soon as all is well; or when nothing has moved for long, or something has been wrong for
        long. For a moment it may look so: not all partitions are read at the same instant.
        """
        moved = well = time.monotonic()
        before = ""
        suspected: dict[str, float] = {}
        while True:
            verdict = Judgement()
            there = await self._stored(user)
            requests.backfills.look(there)
            await self.log.look(quiet_s=0.5)
            if not self.processes.emitters.settled:
                verdict.miss("not all is acknowledged")
            else:
                self._judge(user, requests, traffic, there, verdict)
            if not verdict.lost and there.repeated > self.processes.in_flight - in_flight:
                verdict.double(f"{there.repeated} requests repeated, {self.processes.in_flight - in_flight} in flight")
            if verdict.clean:
                return verdict, there
            done = f"{there.started.total()} {there.calls.total()} {len(there.completed)}"
            state = f"{verdict.lost} {self.log.at} {done} {self.processes.emitters.open}"
            if state != before:
                moved, before = time.monotonic(), state
            suspected = {what: suspected.get(what, time.monotonic()) for what in verdict.excess}
            if not suspected:
                well = time.monotonic()
            limits = [moved + SETTLE_S, well + EVER_WRONG_S, *(since + WRONG_S for since in suspected.values())]
            if time.monotonic() > min(limits):
                return verdict, there

    async def _stored(self, user: User) -> Stored:
        async with asyncio.timeout(AWAY_S):
            while True:
                try:
                    return await stored(self.pool, str(user.generated.app), self._left)
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await asyncio.sleep(0.2)

    def _left(self) -> Left:
        site = self.processes.site
        return Left(site.started_runs(), site.serial_runs(), self.called.seen)

    def _judge(self, user: User, requests: Requests, traffic: Traffic, there: Stored, into: Judgement) -> None:
        """Everything, station by station. What cannot be right before an earlier station is, is not checked."""
        homes = self.log.homes
        judge_homes(homes, traffic.emitted, there.completed, into)
        judge_changes(homes, user, traffic.after, into)
        for contradiction in user.contradictions:
            into.spoil(contradiction)
        judge_ticks(homes, user, into)
        if not into.lost:
            judge_jobs(homes, self.log.jobs, user, datetime.now(UTC), into)
        if not into.lost:
            judge_runs(homes, self.log.jobs, there, user, into)
            judge_requests(homes, there, requests, user, into)
            judge_backfills(homes, there, requests, user, into)
            timeouts = {name: limit for name in user.schedules if (limit := timeout_of(name)) is not None}
            judge_held(there, user.waited, timeouts, into)
        if not into.lost:
            judge_published(homes, there, user.generated.published, into)
            lanes = {name: lane for name in user.schedules if (lane := lane_of(name))}
            judge_lanes(there, lanes, into, requests.backfills.paused)

    def _longest_wait(self, traffic: Traffic) -> float:
        """From when an event was given to an emitter to when it came to a schedule's home, in seconds."""
        sent = traffic.sent_at
        waits = (at.timestamp() - sent[event_id] for event_id, at in self.log.came_home() if event_id in sent)
        return max(0.0, max(waits, default=0.0))


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a trial."""

    met: list[str]
    traffic: Traffic
    user: User
    requests: Requests
    verdict: Judgement
    longest_wait_s: float
    jobs: int
    emitting_s: float
    calls: int
    repeated: int
    in_flight: int

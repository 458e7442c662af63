"""A whole installation killed and paused under load, trial after trial, and judged by an oracle.

Two workers, two launchers (relay, intake, timers), the API and two emitters, as processes; each trial deploys an app of
its own on them, changes it while events flow, and deals them a fault or two. With a bug, no trial begins after it was
found.

`recovery`: how long an event waited at most in a trial. `requests`: of `http` programs; `repeated`: those that were
sent again; `in flight at kills`: those that may have left when a launcher was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import asyncpg
import httpx

from streamsched.domain.names import AppRef
from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.ports.broker import Broker, TopicSpec
from streamsched.process.cancellation import cancel
from streamsched.store.connections import open_pool
from tests.faults.fault import Fault, How, RandomFaults, known, strike
from tests.faults.judges.backfills import judge_backfills
from tests.faults.judges.homes import judge_changes, judge_homes, judge_ticks
from tests.faults.judges.jobs import Left, Stored, judge_jobs, judge_rows, launched_rows, stored
from tests.faults.judges.log import AWAY_S, Log
from tests.faults.judges.requests import judge_requests
from tests.faults.judges.runs import judge_held, judge_lanes, judge_published, judge_runs
from tests.faults.load.generated_schedules import Evidence, GeneratedSchedules, lane_of, timeout_of
from tests.faults.load.requests import Requests
from tests.faults.load.traffic import Traffic
from tests.faults.load.user import User
from tests.faults.processes.bugged import BUGS
from tests.faults.processes.emitters import Emitters
from tests.faults.processes.installation import Processes
from tests.faults.sites.counting_server import CountingServer
from tests.faults.sites.installation_site import SHARDS, site
from tests.simulation.log import Bug
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

_BATCH: Final = 20
#: In the dead letters of events that would have opened too many correlation keys.
REFUSED: Final = "correlation keys may be open"
_IN_HANDS: Final = (
    "SELECT count(*) FROM runs WHERE runner LIKE $1 AND state = 'RUNNING' AND executable ->> 'type' = 'http'"
)
_NAMED_BUGS: Final = {each.name.lower().replace("_", "-"): each for each in BUGS}
_AWAY: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="of our Kafka; one at a time is killed")
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--events", type=int, default=1000, help="of each trial, at least")
    parser.add_argument("--fault", nargs="*", default=[], help="only these, such as 'worker late'")
    parser.add_argument("--bug", choices=_NAMED_BUGS, help="a seeded one, which must be found")


@dataclass(frozen=True, slots=True)
class Shared:
    """What the trials of a run share. `url`: where `called` listens."""

    asked: Asked
    processes: Processes
    log: Log
    broker: Broker
    pool: asyncpg.Pool
    client: httpx.AsyncClient
    faults: RandomFaults
    called: CountingServer
    url: str

    async def close(self, into: Judgement) -> None:
        """Of all trials together: every launch is one row, there are no others, and no run started twice."""
        await self.log.look(quiet_s=0.5)
        judge_rows(await launched_rows(self.pool), self.log.launched, into)
        for run, times in Counter(self.processes.site.started_runs()).items():
            if times > 1:
                into.double(f"run {run} started {times} times")
        for letter in self.log.letters:
            if REFUSED not in letter:  # an event that a schedule refused, as its definition wants; trials judge which
                into.spoil(f"a dead letter: {letter}")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    own = asked.own
    some = tuple(each for each in known(kafka=asked.broker == "kafka") if str(each) in own.fault or not own.fault)
    specs = topic_specs(SHARDS, timedelta(days=7))
    async with open_shared(asked, specs, nodes=own.nodes, bug=_NAMED_BUGS.get(own.bug), faults=some) as shared:
        yield Site(partial(InstallationTrial, shared), asked.n, shared.close, until_found=own.bug is not None)


@asynccontextmanager
async def open_shared(
    asked: Asked,
    specs: Sequence[TopicSpec],
    *,
    nodes: int = 1,
    bug: Bug | None = None,
    faults: tuple[Fault, ...] = (),
    **processes: Any,
) -> AsyncIterator[Shared]:
    """What trials of an installation share; its processes run. `specs`: the topics; `processes`: see `Processes`."""
    async with AsyncExitStack() as stack:
        there = stack.enter_context(site(asked.folder, asked.broker, nodes=nodes))
        broker = await open_broker(there.log)
        stack.push_async_callback(broker.close)
        pool = await stack.enter_async_context(await open_pool(there.database))
        await broker.create_topics(specs)
        pace = random.Random(asked.seed)
        called = CountingServer(lambda: pace.uniform(0.05, 1.5))
        url = stack.enter_context(called.on_thread())
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=there.api))
        emitters = Emitters(there.api, there.log, there.folder)
        all_processes = Processes(there, emitters, bug, partial(requests_in_hands, pool), **processes)
        stack.push_async_callback(all_processes.stop)
        await all_processes.start()
        dealt = RandomFaults(random.Random(asked.seed), faults)
        yield Shared(asked, all_processes, Log(broker), broker, pool, client, dealt, called, url)


async def requests_in_hands(pool: asyncpg.Pool, pid: int) -> int:
    """Runs whose request may have left this process of a launcher, and of which no end is stored. Waits while the
    database is away.
    """
    async with asyncio.timeout(AWAY_S):
        while True:
            try:
                return await pool.fetchval(_IN_HANDS, f"%:{pid}:%")
            except _AWAY:
                await asyncio.sleep(0.1)


class InstallationTrial(Trial):
    """An app of some hundred schedules, some thousand events, changes and requests meanwhile, and a fault or two.

    Attributes:
        rate: events a second.
    """

    rate: float = 250

    def __init__(self, shared: Shared, number: int) -> None:
        self._shared = shared
        self._processes = shared.processes
        self._log = shared.log
        name, seed = f"t{number}", f"{shared.asked.seed}-{number}"
        there = shared.processes.site
        self._rng = random.Random(seed)
        evidence = Evidence(str(there.started), str(there.serial), shared.url)
        self._generated = GeneratedSchedules(AppRef("default", name), self._rng, evidence)
        self._user = User(self._generated, random.Random(f"{seed}-user"), shared.client)
        self._traffic = Traffic(name, random.Random(f"{seed}-events"))
        self._requests = Requests(self._generated, random.Random(f"{seed}-requests"), shared.client)
        self._requests.paused = self._user.settled
        self._in_flight_before = shared.processes.in_flight
        self._met: list[Fault] = []
        self._there = Stored({}, {}, Counter())
        self._log.begin(name)

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        """What ended by itself is started again, until the verdict."""
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep())
            yield
            await cancel(keeping)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(0.3)
            await self._processes.revive()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Events, changes and requests."""
        await self._user.deploy(self._generated.definition(self._shared.asked.own.schedules))
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for each in (self._emit(enough), self._user.meddle(enough), self._requests.ask(enough)):
                group.create_task(each)
            yield
            await asyncio.sleep(1)
            enough.set()
        await self._requests.backfills.resume_all()

    async def faults(self) -> AsyncIterator[str]:
        for _ in range(self._rng.choice((1, 1, 2))):
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))
            what = self._shared.faults.next()
            await strike(self._processes, what, self._rng)
            self._met.append(what)
            yield str(what)

    async def _emit(self, enough: asyncio.Event) -> None:
        traffic, least = self._traffic, self._shared.asked.own.events
        began, batches = time.monotonic(), 0
        while not enough.is_set() or len(traffic.emitted) < least:
            events = [traffic.event(changes=len(self._user.returned)) for _ in range(_BATCH)]
            self._processes.emitters.say(events, traffic.rng)
            batches += 1
            late = 0.0 if len(traffic.emitted) < least else 0.5  # only so that something comes until all are back
            await asyncio.sleep(max(late, began + batches * _BATCH / self.rate - time.monotonic()))

    @property
    def _in_flight(self) -> int:
        return self._processes.in_flight - self._in_flight_before

    async def judge(self) -> Judgement:
        verdict = Judgement()
        self._there = there = await self._stored()
        self._requests.backfills.look(there)
        await self._log.look(quiet_s=0.5)
        if not self._processes.emitters.settled:
            verdict.miss("not all is acknowledged")
        else:
            self._judge(there, verdict)
        if not verdict.lost and there.repeated > self._in_flight:
            verdict.double(f"{there.repeated} requests repeated, {self._in_flight} in flight")
        return verdict

    def _judge(self, there: Stored, into: Judgement) -> None:
        """Everything, station by station. What cannot be right before an earlier station is, is not checked."""
        homes, user, requests = self._log.homes, self._user, self._requests
        judge_homes(homes, self._traffic.emitted, there.completed, into)
        judge_changes(homes, user, self._traffic.after, into)
        for contradiction in user.contradictions:
            into.spoil(contradiction)
        judge_ticks(homes, user, into)
        if not into.lost:
            judged = {key: order.judged for key, order in self._log.orders().items()}
            judge_jobs(judged, self._log.jobs, datetime.now(UTC), into)
        if not into.lost:
            judge_runs(homes, self._log.jobs, there, user, into)
            judge_requests(homes, there, requests, user, into)
            judge_backfills(homes, there, requests, user, into)
            timeouts = {name: limit for name in user.schedules if (limit := timeout_of(name)) is not None}
            judge_held(there, user.waited, timeouts, into)
        if not into.lost:
            judge_published(homes, there, self._generated.published, into)
            lanes = {name: lane for name in user.schedules if (lane := lane_of(name))}
            judge_lanes(there, lanes, into, requests.backfills.paused)

    async def _stored(self) -> Stored:
        async with asyncio.timeout(AWAY_S):
            while True:
                try:
                    return await stored(self._shared.pool, str(self._generated.app), self._left)
                except _AWAY:
                    await asyncio.sleep(0.2)

    def _left(self) -> Left:
        there = self._processes.site
        calls = Counter(self._shared.called.seen)  # a copy: the server counts on in a thread
        return Left(there.started_runs(), there.serial_runs(), calls)

    def progress(self) -> object:
        there = self._there
        done = there.started.total(), there.calls.total(), len(there.completed)
        return dict(self._log.at), done, self._processes.emitters.open

    def counts(self) -> Counts:
        stops, kinds = sum(each.how is How.STOP for each in self._met), self._requests.kinds
        return {
            "kills": len(self._met) - stops,
            "stops": stops,
            "recovery": [self._longest_wait()],
            **{kind: kinds[kind] for kind in ("submissions", "reruns", "backfills", "at once")},
            "requests": self._there.calls.total(),
            "repeated": self._there.repeated,
            "in flight at kills": self._in_flight,
            "events": len(self._traffic.emitted),
            "jobs": len(self._log.jobs),
            "changes": len(self._user.returned) - len(self._generated.schedules),
            "pauses": self._user.modes.total(),
            "held": len(self._user.waited),
        }

    def _longest_wait(self) -> float:
        """From when an event was given to an emitter to when it came to a schedule's home, in seconds."""
        sent = self._traffic.sent_at
        waits = (at.timestamp() - sent[event_id] for event_id, at in self._log.came_home() if event_id in sent)
        return max(0.0, max(waits, default=0.0))

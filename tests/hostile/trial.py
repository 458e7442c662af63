"""Batches of cases on installations, and the verdict about them."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import asyncpg
import httpx

from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from tests.faults.sites.installation_site import SHARDS, temporary_site
from tests.hostile import plugin
from tests.hostile.canary import SLOW_S, STOPPED_S, Canaries
from tests.hostile.case import Case, Site
from tests.hostile.event_cases import HEARD, listeners
from tests.hostile.far_server import far_server
from tests.hostile.pace import Pace
from tests.hostile.processes import Processes
from tests.hostile.warm_roles import WarmRoles
from tests.support.judgement import Judgement

#: How long a process may take to answer its probe: its event loop is blocked no longer.
SILENT_S: Final = 1.0
#: How long memory may take to settle.
_SETTLE_S: Final = 15.0
#: How many cases of a batch are done at a time.
_AT_ONCE: Final = 6
_CASE_S: Final = 120.0
#: Of the apps of a batch, each of this number stays, the others are deleted.
_STAYS: Final = 4

Say = Callable[..., None]


@dataclass(slots=True)
class Tally:
    """What came of all cases.

    Attributes:
        judgement: cases after which a canary launched nothing (stopped), took more than 5 s (slow), or a process ended,
            stayed beyond its memory limit or did not answer its probe in time (crashed); canary events without a job or
            with two (lost); answers of 5xx, tracebacks, loops that died of an unexpected error (faults).
    """

    cases: int = 0
    judgement: Judgement = field(default_factory=lambda: Judgement(("stopped", "slow", "crashed", "lost", "faults")))
    faults: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    silent_s: float = 0.0
    largest_mb: float = 0.0
    log_mb: float = 0.0
    factor: float = 1.0

    def measures(self) -> dict[str, Any]:
        """What was done and measured. `stretched`: how many times limits were, at most, on a busy machine."""
        return {
            "cases": self.cases,
            "longest launch": self.longest_s,
            "longest probe": self.silent_s,
            "largest_mb": round(self.largest_mb),
            "logs_mb": round(self.log_mb),
            "stretched": round(self.factor, 1),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wrong after some cases: at most one word each of the verdict, and the reasons."""

    stopped: str = ""
    slow: str = ""
    crashed: str = ""

    def __bool__(self) -> bool:
        return bool(self.stopped or self.slow or self.crashed)

    @property
    def only_slow(self) -> bool:
        return bool(self.slow) and not (self.stopped or self.crashed)

    def kinds(self) -> dict[str, str]:
        """Why, by the word of the verdict."""
        said = {"stopped": self.stopped, "slow": self.slow, "crashed": self.crashed}
        return {word: why for word, why in said.items() if why}

    def __str__(self) -> str:
        return "; ".join(f"{word}: {why}" for word, why in self.kinds().items())


@dataclass(slots=True)
class Installation:
    """One that runs, with its canaries."""

    processes: Processes
    canaries: Canaries
    site: Site
    pace: Pace
    silent_s: float = 0.0
    factor: float = 1.0
    _blocked: dict[str, float] = field(default_factory=dict)

    async def probe(self) -> None:
        """Asks every process how it is, until cancelled."""
        async with httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0)) as client:
            while True:
                for place, took in (await self.processes.blocked_s(client, patience_s=10)).items():
                    self._blocked[place] = max(took, self._blocked.get(place, 0.0))
                    self.silent_s = max(took, self.silent_s)
                await asyncio.sleep(0.25)

    async def check(self) -> tuple[Finding, float]:
        """What is wrong now, and how long the slowest canary took."""
        during_cases = self.pace.factor()
        self.pace.begin()
        took = await self.canaries.sing(lambda: STOPPED_S * self.pace.factor())
        slowest = SLOW_S * self.pace.factor()
        stopped = [name for name, seconds in took.items() if seconds == inf]
        slow = [f"{name} {seconds:.1f} s" for name, seconds in took.items() if slowest < seconds < inf]
        ended = self.processes.ended()
        said = [f"{place} {why}" for place, why in ended.items()]
        if not ended:
            said += [f"{place} has {mb}" for place, mb in (await self._swollen()).items()]
        longest = SILENT_S * max(during_cases, self.pace.factor())
        said += [f"{place} silent for {s:.1f} s" for place, s in self._blocked.items() if s > longest]
        self._blocked.clear()
        finite = [seconds for seconds in took.values() if seconds < inf]
        self.factor = max(self.factor, self.pace.factor())
        return Finding(", ".join(stopped), ", ".join(slow), ", ".join(said)), max(finite, default=inf)

    async def _swollen(self) -> dict[str, str]:
        deadline = time.monotonic() + _SETTLE_S
        while True:
            found = self.processes.swollen()
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.5)


@dataclass(slots=True)
class Batches:
    """Runs cases in batches, each installation as long as all is well with it."""

    broker: str
    size: int
    say: Say
    logs: Path | None = None
    aloud: bool = False
    together: bool = False
    tally: Tally = field(default_factory=Tally)
    warm: WarmRoles = field(init=False)
    _given_up: int = 0

    async def run(self, some: Iterable[Case]) -> Tally:
        left = iter(some)
        batch = self._next(left)
        with TemporaryDirectory(prefix="ss-warm-") as folder:
            self.warm = WarmRoles(Path(folder))
            try:
                while batch:
                    async with self._installation() as there:
                        batch = await self._on(there, batch, left)
            finally:
                self.warm.stop()
        return self.tally

    def _next(self, left: Iterator[Case]) -> Sequence[Case]:
        return list(itertools.islice(left, self.size))

    async def _on(self, there: Installation, batch: Sequence[Case], left: Iterator[Case]) -> Sequence[Case]:
        """Batch after batch until something is wrong; returns the batch that is next then."""
        while batch:
            began = time.monotonic()
            await self._play(there, batch)
            found = await self._judge(there, batch)
            self.say(
                f"cases {batch[0].number} to {batch[-1].number}: {time.monotonic() - began:.1f} s"
                + (f": {_brief(found)}" if found else "")
            )
            if found:
                await self._single_out(there, batch, found)
                return self._next(left)
            batch = self._next(left)
        await self._after_restart(there)
        for each in await there.canaries.lost():
            self._tell("lost", f"canary {each}")
        return []

    async def _play(self, there: Installation, batch: Sequence[Case]) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def play(each: Case) -> None:
            async with turns:
                try:
                    async with asyncio.timeout(_CASE_S):
                        await each.act(there.site)
                except TimeoutError:
                    there.site.faults[f"{each}: took more than {_CASE_S:g} s"] += 1
                except Exception as exc:
                    exc.add_note(str(each))
                    raise

        async with asyncio.TaskGroup() as group:
            for each in batch:
                group.create_task(play(each))

    async def _judge(self, there: Installation, batch: Sequence[Case], *, again: bool = False) -> Finding:
        """What is wrong after the batch. `again`: its cases were counted before."""
        found, longest = await there.check()
        self._measure(there, longest)
        if not found:
            for each in batch:
                if each.number % _STAYS:
                    await there.site.ask("PUT", f"/v1/apps/default/h{each.number}", {})
        named = f"case {batch[0].number}" + (f" to {batch[-1].number}" if len(batch) > 1 else "")
        for fault, times in (there.site.faults + there.processes.broken()).items():
            if fault not in self.tally.faults:
                self._tell("faults", f"in {named}: {fault}")
            self.tally.faults[fault] += times
        there.site.faults.clear()
        if not again and (len(batch) == 1 or self.together or not found):
            self.tally.cases += len(batch)
        return found

    async def _single_out(self, there: Installation, batch: Sequence[Case], found: Finding) -> None:
        """Repeats the batch on new installations, one case after another; counts what each of them does."""
        self._keep_logs(there)
        if len(batch) == 1 or self.together:
            self._count(batch[0] if len(batch) == 1 else None, found, batch)
            return
        left, alone = list(batch), 0
        while left:
            async with self._installation() as anew:
                while left:
                    each = left.pop(0)
                    await self._play(anew, [each])
                    again = await self._judge(anew, [each])
                    if again:
                        alone += 1
                        self._count(each, again)
                        self._keep_logs(anew)
                        break
        if alone:
            return
        if found.only_slow:  # a busy machine can make a moment slow; what cases do together they do again
            async with self._installation() as anew:
                await self._play(anew, batch)
                found = await self._judge(anew, batch, again=True)
                self.say(f"cases {batch[0].number} to {batch[-1].number} again: {_brief(found) or 'well'}")
        if found:
            self._count(None, found, batch)

    async def _after_restart(self, there: Installation) -> None:
        """What was done must not do it again when everything starts anew."""
        await there.processes.kill_and_start_again()
        found, longest = await there.check()
        self._measure(there, longest)
        if found:
            self._keep_logs(there)
            self._count(None, found, (), when="after everything was killed and started again")

    def _count(
        self, each: Case | None, found: Finding, batch: Sequence[Case] = (), when: str = "together, none alone"
    ) -> None:
        many = "" if not batch else f"cases {batch[0].number} to {batch[-1].number} "
        for kind, why in found.kinds().items():
            self._tell(kind, f"{each or many + when}: {why}")

    def _tell(self, kind: str, words: str) -> None:
        self.tally.judgement.note(kind, words)
        self.say(f"  {kind}: {words}")

    def _measure(self, there: Installation, longest: float) -> None:
        tally = self.tally
        tally.longest_s = max(tally.longest_s, longest)
        tally.factor = max(tally.factor, there.factor)
        tally.silent_s = max(tally.silent_s, there.silent_s)
        tally.largest_mb = max(tally.largest_mb, *there.processes.memory_mb().values(), 0.0)
        tally.log_mb = max(tally.log_mb, there.processes.log_mb())

    def _keep_logs(self, there: Installation) -> None:
        self._given_up += 1
        if self.logs is not None:
            to = self.logs / str(self._given_up)
            to.mkdir(parents=True)
            for path in there.processes.base.folder.glob("*.log"):
                shutil.copy(path, to)

    @asynccontextmanager
    async def _installation(self) -> AsyncIterator[Installation]:
        stack = ExitStack()
        base = await asyncio.to_thread(stack.enter_context, temporary_site(self.broker))
        try:
            plugins = base.folder / "plugins"
            plugin.install(plugins)
            processes = Processes(base, plugins, self.warm)
            broker = await open_broker(base.log)
            await broker.create_topics(topic_specs(SHARDS, timedelta(days=7)))
            limits = httpx.Limits(max_connections=50)
            async with (
                asyncpg.create_pool(base.database, min_size=1, max_size=8) as pool,
                httpx.AsyncClient(base_url=base.api, limits=limits) as client,
                httpx.AsyncClient(base_url=base.api) as calm,
                far_server() as far,
            ):
                site = Site(client, pool, broker, base.folder, far, base.api, self.aloud)
                there = Installation(
                    processes, Canaries(calm, pool, far), site, Pace(base.folder / "pg" / "postmaster.pid")
                )
                probing = None
                try:
                    await processes.start()
                    await there.canaries.deploy()
                    answer = await site.ask("PUT", f"/v1/apps/default/{HEARD}", listeners())
                    assert answer is not None, "the API does not answer"
                    assert answer.is_success, answer.text
                    await there.canaries.sing()
                    processes.baseline = dict(processes.memory_mb())
                    probing = asyncio.create_task(there.probe())
                    yield there
                finally:
                    if probing is not None:
                        probing.cancel()
                    await processes.stop()
                    await broker.close()
        finally:
            await asyncio.to_thread(stack.close)


def _brief(found: Finding) -> str:
    return str(found)[:300]

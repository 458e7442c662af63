"""Canaries: schedules of ordinary users, which must launch whatever happens to others.

Together they need every loop of the installation: each shard as an event's home and as a schedule's, the intake, the
launcher, runs without a process, the wake-ups, the timers, the relay, the way of a run's end to the log, a runner.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import httpx

from streamsched.domain.signals.home import home
from tests.faults.sites.installation_site import SHARDS

APP: Final = "canary"
#: A canary that takes longer than this is slow; one that takes longer than `STOPPED_S`, is stopped.
SLOW_S: Final = 5.0
STOPPED_S: Final = 15.0
#: The clock of the canary that waits for one, in seconds.
TICK_S: Final = 2

_ENDED: Final = """
SELECT schedule, count(*) AS jobs, count(*) FILTER (WHERE done) AS done, count(DISTINCT id) AS ids FROM (
    SELECT j.schedule, j.id, EXISTS (SELECT FROM runs r WHERE r.job = j.id AND r.state = 'COMPLETED')
        OR EXISTS (SELECT FROM runs_history r WHERE r.id LIKE j.id || '.r%' AND r.state = 'COMPLETED') AS done
    FROM jobs j WHERE j.schedule = ANY($1)
    UNION ALL
    SELECT h.schedule, h.id, EXISTS (
        SELECT FROM unnest(h.runs) run JOIN runs_history r ON r.id = run WHERE r.state = 'COMPLETED')
    FROM jobs_history h WHERE h.schedule = ANY($1)
) known GROUP BY schedule
"""
_LAST_TICK: Final = """
SELECT max(at) FROM (
    SELECT max(satisfied_at) AS at FROM jobs WHERE schedule = $1 AND state = 'LAUNCHED'
    UNION ALL SELECT max(created_at) FROM jobs_history WHERE schedule = $1
) known
"""


def _named(prefix: str, number: int, key: str) -> str:
    """A name by which the key's home is shard `number`."""
    return next(name for n in range(10_000) if home(key.format(name := f"{prefix}{n}"), SHARDS) == number)


@dataclass(slots=True)
class Canaries:
    """Attributes:
    sent: schedule → how many of its events were acknowledged.
    """

    client: httpx.AsyncClient
    pool: asyncpg.Pool
    url: str
    sent: Counter[str] = field(default_factory=Counter)
    _events: dict[str, dict[str, Any]] = field(default_factory=dict)
    _round: int = 0

    async def deploy(self) -> None:
        """Deploys them; at most a minute."""
        said = {"name": "say", "type": "publish", "event": "canary-said", "attributes": {"by": "{trigger.schedule}"}}
        programs = [
            said,
            {**said, "name": "first"},
            {"name": "ask", "type": "http", "url": f"{self.url}/well", "timeout": "4s"},
            {"name": "run", "type": "bash", "command": "true"},
        ]
        schedules = []
        for shard in range(SHARDS):
            event = _named("canary", shard, "event:default.{}")
            name = _named("plain", (shard + 1) % SHARDS, f"schedule:default.{APP}.{{}}")
            program = ("first", "ask", "run", "say")[shard]
            self._listens(name, event)
            schedules.append(_schedule(name, program, {"type": "EVENT", "event": event}))
        quiet = {"type": "QUIET", "trigger": {"type": "EVENT", "event": "canaryquiet"}, "duration": "200ms"}
        self._listens("quiet", "canaryquiet")
        schedules.append(_schedule("quiet", "say", quiet))
        self._listens("constrained", "canarywaits")
        wanted = [
            {"type": "DELAY", "delay": "200ms"},
            {"type": "GROUP", "group": "canary", "limit": 5},
            {"type": "POOL", "pool": "canary", "size": 5},
            {"type": "RATE", "maxRuns": 100, "per": "1s"},
        ]
        schedules.append(_schedule("constrained", "say", {"type": "EVENT", "event": "canarywaits"}, wanted))
        ended = {"type": "PROGRAM_STATUS", "programId": "first", "programStatuses": ["COMPLETED"]}
        schedules.append(_schedule("chained", "say", ended))
        schedules.append(_schedule("ticking", "say", {"type": "EVERY", "interval": f"{TICK_S}s"}))
        body = {"programs": programs, "schedules": schedules}
        answer = await self.client.put(f"/v1/apps/default/{APP}", json=body, timeout=60)
        answer.raise_for_status()

    async def sing(self, patience: Callable[[], float] = lambda: 4 * STOPPED_S) -> Mapping[str, float]:
        """Sends each its event; the seconds it took each to end its run, infinity where it did not within `patience`,
        which is asked again and again."""
        self._round += 1
        began = time.monotonic()
        took: dict[str, float] = {}
        control = asyncio.create_task(self._control(patience))
        await self._send(began, patience, took)
        waiting = set(self._expected()) - set(took)
        since = datetime.now(UTC)
        waiting |= {"ticking"}
        while waiting and time.monotonic() - began < patience():
            try:
                done = await self._done()
                ticked = await self.pool.fetchval(_LAST_TICK, f"default.{APP}.ticking")
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.5)
                continue
            for name in list(waiting):
                sung = ticked is not None and ticked > since if name == "ticking" else self._sung(name, done)
                if sung:
                    late = TICK_S if name == "ticking" else 0
                    took[name] = max(0.0, time.monotonic() - began - late)
                    waiting.discard(name)
            await asyncio.sleep(0.1)
        took |= dict.fromkeys(waiting, float("inf"))
        took["control"] = await control
        return took

    async def lost(self) -> list[str]:
        """Canaries whose events have more or fewer jobs than there were events; their runs are to end meanwhile."""
        deadline = time.monotonic() + 4 * STOPPED_S
        while True:
            done = await self._done()
            wrong = [
                f"{name}: {wanted} events, {done.get(name)}"
                for name, wanted in self._expected().items()
                if done.get(name) != (wanted, wanted, wanted)
            ]
            if not wrong or time.monotonic() > deadline:
                return wrong
            await asyncio.sleep(0.2)

    def _listens(self, schedule: str, event: str) -> None:
        self._events[schedule] = {"type": "custom", "source": "canary", "data": {"name": event, "attributes": {}}}

    def _expected(self) -> dict[str, int]:
        first = next(iter(self._events))
        return {**{name: self.sent[name] for name in self._events}, "chained": self.sent[first]}

    def _sung(self, name: str, done: Mapping[str, tuple[int, int, int]]) -> bool:
        return done.get(name, (0, 0, 0))[1] >= self._expected()[name]

    async def _send(self, began: float, patience: Callable[[], float], took: dict[str, float]) -> None:
        """All events in one request, until it is acknowledged: an id that was taken twice counts once."""
        stamped = datetime.now(UTC).isoformat()
        some = [
            {**event, "id": f"canary-{name}-{self._round}", "time": stamped} for name, event in self._events.items()
        ]
        while time.monotonic() - began < patience():
            try:
                answer = await self.client.post("/v1/events", params={"check": "none"}, json=some, timeout=5)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code == httpx.codes.ACCEPTED:
                for name in self._events:
                    self.sent[name] += 1
                return
            await asyncio.sleep(0.2)
        took |= dict.fromkeys(self._expected(), float("inf"))

    async def _control(self, patience: Callable[[], float]) -> float:
        """How long it takes to change a schedule: it is acknowledged by way of relay and log."""
        began = time.monotonic()
        while time.monotonic() - began < patience():
            body = {"name": "changing", "description": f"round {self._round} {time.monotonic()}"}
            definition = {**_schedule("changing", "say", {"type": "EVENT", "event": "canarynever"}), **body}
            definition.pop("enabled")
            try:
                path = f"/v1/schedules/default.{APP}.changing"
                answer = await self.client.put(path, json=definition, timeout=patience())
                if answer.status_code == httpx.codes.NOT_FOUND:
                    named = {"namespace": "default", "application": APP, **definition}
                    answer = await self.client.post("/v1/schedules", json=named, timeout=patience())
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.is_success:
                return time.monotonic() - began
            await asyncio.sleep(0.2)
        return float("inf")

    async def _done(self) -> dict[str, tuple[int, int, int]]:
        """Schedule → its jobs, those with a completed run, and different ids."""
        refs = [f"default.{APP}.{name}" for name in self._expected()]
        rows = await self.pool.fetch(_ENDED, refs)
        return {row["schedule"].rpartition(".")[2]: (row["jobs"], row["done"], row["ids"]) for row in rows}


def _schedule(name: str, program: str, trigger: object, wanted: object = ()) -> dict[str, Any]:
    return {
        "name": name,
        "program": program,
        "trigger": trigger,
        "constraints": list(wanted) if isinstance(wanted, list) else [],
        "overlap": "queue",
        "enabled": True,
    }

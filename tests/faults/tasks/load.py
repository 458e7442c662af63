"""The load of a trial: registrations over HTTP, some repeated, replaced and dropped."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from tests.faults.tasks.judge import Name, Registration
from tests.faults.tasks.receiver import STUCK

#: The first due time, in seconds from now, and how far apart the first and the last are.
LEAD_S: Final = 2.0
SPREAD_S: Final = 8.0
_AT_ONCE: Final = 500
_STORED: Final = ("made", "replaced")


@dataclass(slots=True)
class TaskLoad:
    """Attributes:
    registered: those that were stored, in order.
    dropped: when the drop of a task was requested, of those that were dropped.
    ids: of the tasks.
    """

    client: httpx.AsyncClient
    queue: str
    rng: random.Random
    registered: list[Registration] = field(default_factory=list)
    dropped: dict[Name, float] = field(default_factory=dict)
    ids: dict[Name, str] = field(default_factory=dict)
    repeats: int = 0

    async def set_queue(self, url: str) -> None:
        """A queue that retries after a second without a bound."""
        policy = {
            "target": {"type": "http", "url": url, "timeout": "2s"},
            "retry": {"type": "period", "period": "1s"},
        }
        (await self.client.put(f"/v1/queues/{self.queue}", json=policy)).raise_for_status()

    async def register(self, lanes: int) -> None:
        """Tasks of so many lanes, one in a hundred of which is stuck; a third of them have more than one."""
        names: list[Name] = []
        for number in range(lanes):
            lane = f"{STUCK}{number // 100}" if number % 100 == 0 else f"lane-{number}"
            many = 3 if number % 100 == 0 else self.rng.choice((1, 1, 2))
            names += [Name(lane, f"{self.rng.getrandbits(48):012x}") for _ in range(many)]
        self.rng.shuffle(names)
        began = time.time()
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            await self._post([(name, 1, began + LEAD_S + self.rng.uniform(0, SPREAD_S)) for name in batch])

    async def meddle(self, stop: asyncio.Event) -> None:
        """Repeats, replaces and drops tasks until it is to stop."""
        while not stop.is_set():
            before = self.rng.sample(self.registered, min(20, len(self.registered)))
            await self._post([(each.name, each.version, each.due) for each in self._newest(before[:10])])
            now = time.time()
            await self._post(
                [(each.name, each.version + 1, now + self.rng.uniform(0.2, 4)) for each in self._newest(before[10:])]
            )
            await self._drop(self.rng.choice(self.registered).name)
            await asyncio.sleep(0.1)

    def _newest(self, among: Sequence[Registration]) -> list[Registration]:
        wanted = {each.name for each in among}
        return list({each.name: each for each in self.registered if each.name in wanted}.values())

    async def _post(self, tasks: Sequence[tuple[Name, int, float]]) -> None:
        tasks = [each for each in tasks if each[0] not in self.dropped]
        if not tasks:
            return
        known = {(each.name, each.version): each.due for each in self.registered}
        response = await self.client.post(f"/v1/queues/{self.queue}/tasks", json=[_task_json(*each) for each in tasks])
        response.raise_for_status()
        answered = time.time()
        for (name, version, due), found in zip(tasks, response.json()["tasks"], strict=True):
            self.ids[name] = found["id"]
            if (name, version) in known:
                self.repeats += 1
            if found["verdict"] in _STORED:
                self.registered.append(Registration(name, version, due, found["verdict"], answered))

    async def _drop(self, name: Name) -> None:
        asked = time.time()
        response = await self.client.post(f"/v1/tasks/{self.ids[name]}/drop", json={})
        if response.status_code == 200 and response.json()["state"] == "DROPPED":
            self.dropped.setdefault(name, asked)
        elif response.status_code != 409:
            response.raise_for_status()


def _task_json(name: Name, version: int, due: float) -> dict[str, Any]:
    data = {"lane": name.lane, "key": name.key, "version": version, "due": due}
    return {"lane": name.lane, "key": name.key, "due": datetime.fromtimestamp(due, UTC).isoformat(), "data": data}

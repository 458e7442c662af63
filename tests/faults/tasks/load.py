"""The load of a trial: registrations, some repeated, replaced and dropped."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.faults.judges.tasks import Name
from tests.faults.tasks.receiver import STUCK
from tests.faults.tasks.ways_in import Arrival, SentTask

#: The queue whose tasks are requests, and the one whose tasks are events.
CALLED: Final = "called"
PUBLISHED: Final = "published"
#: The first due time, in seconds from now, and how far apart the first and the last are.
LEAD_S: Final = 2.0
SPREAD_S: Final = 6.0
_AT_ONCE: Final = 500


@dataclass(slots=True)
class TaskLoad:
    """Attributes:
    publishing: whether every second lane is in the queue whose tasks are events.
    newest: the newest registration of each task, in the order in which they were sent first.
    dropped: when the drop of a task was requested, of those that were dropped.
    """

    arrival: Arrival
    trial: str
    rng: random.Random
    publishing: bool
    newest: dict[Name, SentTask] = field(default_factory=dict)
    dropped: dict[Name, float] = field(default_factory=dict)
    repeats: int = 0
    replacements: int = 0
    _names: list[Name] = field(default_factory=list)

    async def register(self, lanes: int) -> None:
        """Tasks of so many lanes, one in a hundred of which is stuck; a third of them have more than one."""
        names: list[Name] = []
        for number in range(lanes):
            lane = f"{STUCK}{number // 100}-{self.trial}" if number % 100 == 0 else f"{number}-{self.trial}"
            many = 3 if number % 100 == 0 else self.rng.choice((1, 1, 2))
            names += [Name(lane, f"{self.rng.getrandbits(48):012x}") for _ in range(many)]
        self.rng.shuffle(names)
        began = time.time() + LEAD_S
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            await self._send([SentTask(name, 1, round(began + self.rng.uniform(0, SPREAD_S), 3)) for name in batch])
            self._names += batch

    async def meddle(self, stop: asyncio.Event) -> None:
        """Repeats, replaces and drops tasks until it is to stop."""
        while not stop.is_set():
            await asyncio.sleep(0.1)
            if len(self._names) < 100:
                continue
            drawn = [self.newest[name] for name in self.rng.sample(self._names, 40) if name not in self.dropped]
            repeated, replaced = drawn[:10], drawn[10:]
            self.repeats += len(repeated)
            self.replacements += len(replaced)
            await self._send([*repeated, *map(self._replacement, replaced)])
            await self._drop(self.newest[self.rng.choice(self._names)])

    def _replacement(self, task: SentTask) -> SentTask:
        due = task.due if self.arrival.keeps_due else round(time.time() + self.rng.uniform(0.2, 4), 3)
        return SentTask(task.name, task.version + 1, due)

    async def _send(self, tasks: Sequence[SentTask]) -> None:
        by_queue: defaultdict[str, list[SentTask]] = defaultdict(list)
        for each in tasks:
            by_queue[self._queue(each.name)].append(each)
        for queue, those in by_queue.items():
            await self.arrival.send(queue, those)
            self.newest.update((each.name, each) for each in those)

    async def _drop(self, task: SentTask) -> None:
        asked = time.time()
        if await self.arrival.drop(self._queue(task.name), task):
            self.dropped.setdefault(task.name, asked)

    def _queue(self, name: Name) -> str:
        number = name.lane.partition("-")[0]
        return PUBLISHED if self.publishing and number.isdigit() and int(number) % 2 else CALLED

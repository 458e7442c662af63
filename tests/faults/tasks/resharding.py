"""The number of partitions of lanes is changed again and again while owners are killed, paused and stopped under load;
judged by what arrived, as the kind `tasks`.

`changes`: how many were asked for; `away`: lanes that are not where they belong in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.faults.tasks import trial
from tests.faults.tasks.trial import TaskSite, TaskTrial
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site

_PATH: Final = "/v1/tasks/partitions"
_NUMBERS: Final = (1, 2, 7, 16, 24, 48, 100)
_AWAY: Final = (
    "SELECT count(*) FROM task_lanes l, task_layout y WHERE l.partition <> task_partition_v1(l.id, y.partitions)"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    trial.add_options(parser)
    parser.set_defaults(lanes=3000)


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    async with trial.open_site(asked, ReshardingTrial) as site:
        yield site


class ReshardingTrial(TaskTrial):
    """Asks for other numbers of partitions, often before the former change is done."""

    def __init__(self, shared: TaskSite, number: int) -> None:
        super().__init__(shared, number)
        self._client, self._pool, self._numbers = shared.client, shared.pool, self.rng_of("partitions")
        self._changes = self._away = 0

    async def beside(self) -> None:
        while True:
            answer = await self._client.put(_PATH, json={"partitions": self._numbers.choice(_NUMBERS)})
            answer.raise_for_status()
            self._changes += 1
            ends = time.monotonic() + self._numbers.uniform(0.5, 6)
            while time.monotonic() < ends and not (await self._layout())["settled"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def judge(self) -> Judgement:
        verdict = await super().judge()
        if verdict.lost:
            return verdict
        if not (layout := await self._layout())["settled"]:
            verdict.miss(f"a change of the number of partitions: {layout}")
            return verdict
        self._away = await self._pool.fetchval(_AWAY)
        if self._away:
            verdict.miss(f"{self._away} lanes are not where they belong", self._away)
        return verdict

    def counts(self) -> Counts:
        return {"changes": self._changes, "away": self._away, **super().counts()}

    async def _layout(self) -> dict:
        return (await self._client.get(_PATH)).json()

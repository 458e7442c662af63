"""The number of partitions of lanes is changed again and again while owners are killed, paused and stopped under
load; judged by what arrived, as in `tests.faults.tasks.run`.

    python -m tests.faults.tasks.resharding --trials 5 --seed 1

The last line adds how many changes were asked for, and how many lanes are not where they belong in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import sys
import time
from collections.abc import Sequence
from typing import Final

import httpx
import structlog

from tests.faults.sites.installation_site import InstallationSite, temporary_site
from tests.faults.tasks.judge import TaskVerdict
from tests.faults.tasks.run import task_trials

_PATH: Final = "/v1/tasks/partitions"
_NUMBERS: Final = (1, 2, 7, 16, 24, 48, 100)
#: Seconds after which a change has failed.
_SETTLE_S: Final = 120.0
_AWAY: Final = (
    "SELECT count(*) FROM task_lanes l, task_layout y WHERE l.partition <> task_partition_v1(l.id, y.partitions)"
)


class Resharding:
    """Asks for other numbers, often before the former change is done."""

    def __init__(self, client: httpx.AsyncClient, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self.changes = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            answer = await self._client.put(_PATH, json={"partitions": self._rng.choice(_NUMBERS)})
            answer.raise_for_status()
            self.changes += 1
            ends = time.monotonic() + self._rng.uniform(0.5, 6)
            while time.monotonic() < ends and not (await self.found())["settled"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def found(self) -> dict:
        return (await self._client.get(_PATH)).json()

    async def settled(self) -> bool:
        """Whether the last change is done, after a while at most."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            if (await self.found())["settled"]:
                return True
            await asyncio.sleep(0.3)
        return False


async def run(site: InstallationSite, *, trials: int, seed: int, lanes: int, owners: int) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    total, changes = TaskVerdict(), 0
    async with task_trials(site, owners) as playing:
        for number in range(1, trials + 1):
            resharding = Resharding(playing.client, random.Random(f"{seed}-{number}-partitions"))
            total.add(await playing.play(number, seed, lanes, resharding.run))
            if not await resharding.settled():
                total.note("lost", f"a change of the number of partitions: {await resharding.found()}")
            changes += resharding.changes
            gc.collect()
        away = await playing.pool.fetchval(_AWAY)
    return f"trials {trials} changes {changes} away {away} {total.line()}", total.well and not away


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=3000)
    parser.add_argument("--owners", type=int, default=3)
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    with temporary_site("postgres") as there:
        line, well = asyncio.run(
            run(there, trials=asked.trials, seed=asked.seed, lanes=asked.lanes, owners=asked.owners)
        )
    sys.stdout.write(line + "\n")
    sys.exit(not well)


if __name__ == "__main__":
    main()

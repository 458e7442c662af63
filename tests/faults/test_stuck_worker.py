"""A worker that is alive but gets nothing done ends itself, says so last, and another one goes on where it was."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import orjson
import pytest

from streamsched.domain.names import DatasetRef
from streamsched.domain.trigger import Partitions
from streamsched.ports.drivers import open_broker
from streamsched.stream.watchdog import STUCK
from streamsched.testing.town import Town, event_ids, landed, schedule
from tests.faults.process import environ, module, start

pytestmark = pytest.mark.postgres

SHARDS = 2


def hire(database: str, log: Path, hangs: str) -> subprocess.Popen[bytes]:
    env = environ(database_url=database, shards=SHARDS, lease="1s", stuck_after="2s", log_format="json")
    return start(module("tests.faults.stuck_process", hangs), log, env)


async def test_a_worker_whose_loop_is_blocked_ends_itself_and_another_goes_on(database: str, tmp_path: Path) -> None:
    """One whose shard hangs: `test_told_truly.py`."""
    broker = await open_broker(database)
    town = await Town.found(broker, SHARDS)
    processes = [hire(database, tmp_path / "stuck.log", "loop")]
    try:
        await town.put(schedule(), Partitions(DatasetRef("default", "flights"), 2))
        await town.emit(*(landed(n) for n in range(13)))
        async with asyncio.timeout(90):
            while len(await town.jobs()) < 6:  # noqa: ASYNC110 - another process is at it
                await asyncio.sleep(0.1)
        await town.emit(landed(13), landed(14))

        assert await asyncio.to_thread(processes[0].wait, 90) == STUCK
        last = orjson.loads((tmp_path / "stuck.log").read_bytes().strip().splitlines()[-1])
        assert last["action"] == "worker.stuck"
        assert last["stuck"] == "loop"
        assert "blocking" in last["loop_at"]

        processes.append(hire(database, tmp_path / "sane.log", "never"))
        async with asyncio.timeout(90):
            while len(await town.jobs()) < 7:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert event_ids((await town.jobs())[-1]) == ["flights-12", "flights-13"]
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)
        await broker.close()

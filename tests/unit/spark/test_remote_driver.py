"""The supervision of a driver on a cluster that answers as a test says."""

from __future__ import annotations

# ruff: noqa: ASYNC110  (a turn of the loop for the task under test)
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.errors import ConfigurationError, ConflictError, UnavailableError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.programs.driver import Driver
from streamsched.spark.backends.backend import DriverState, DriverStatus, DriverSubmission
from streamsched.spark.backends.remote_driver import RemoteDriver, RemoteTiming
from streamsched.spark.backends.requests import NotSentError
from streamsched.spark.backends.standalone import StandaloneBackend

RUN = "default.shop.join.1.1.r1"
QUICK = RemoteTiming(poll=0.001, reach=0.05, settle=0.001, kill=0.05)


def submission(master: str, **given: Any) -> DriverSubmission:
    return DriverSubmission(run=RUN, master=master, main="local:///opt/join.py", **given)


class World:
    """A cluster in memory. `failures`: of the next submissions; raised after the driver was accepted, unless `lost`."""

    def __init__(self, *failures: Exception | None, lost: bool = False) -> None:
        self.failures = list(failures)
        self.drivers: list[str] = []
        self.state = DriverState.RUNNING
        self.kills = 0
        self.lost = lost

    async def find(self) -> str | None:
        return self.drivers[0] if self.drivers else None

    async def submit(self) -> str:
        failure = self.failures.pop(0) if self.failures else None
        if not isinstance(failure, NotSentError | ConfigurationError) and not (failure and self.lost):
            self.drivers.append(f"d{len(self.drivers)}")
        if failure is not None:
            raise failure
        return self.drivers[-1]

    async def status(self, driver: str) -> DriverStatus:
        return DriverStatus(self.state)

    async def kill(self, driver: str) -> None:
        self.kills += 1
        self.state = DriverState.KILLED

    async def logs(self, driver: str, read: Mapping[str, int]) -> Mapping[str, bytes]:
        return {"stdout": b"printed\n"[read.get("stdout", 0) :]}


async def confirmed() -> None:
    pass


@pytest.mark.parametrize("lost", [False, True])
async def test_a_submission_without_an_answer_is_searched_before_it_is_repeated(tmp_path: Path, lost: bool) -> None:
    world = World(UnavailableError("no answer"), lost=lost)
    world.state = DriverState.SUCCEEDED

    child = RemoteDriver(world, tmp_path / "log", confirmed, timing=QUICK)

    assert await child.wait() == 0
    assert world.drivers == ["d0"]
    assert child.driver == Driver("d0", "")
    assert (tmp_path / "log").read_text() == "printed\n"
    await child.close()


async def test_the_next_runner_finds_the_driver_of_the_former_one(tmp_path: Path) -> None:
    world = World()
    first = RemoteDriver(world, tmp_path / "log", confirmed, timing=QUICK)
    while first.driver is None:
        await asyncio.sleep(0)
    await first.close()  # as when its runner ends

    for known in (None, Driver("d0", "")):
        world.state = DriverState.SUCCEEDED
        child = RemoteDriver(world, tmp_path / "log", confirmed, known=known, taken_over=True, timing=QUICK)
        assert await child.wait() == 0
        await child.close()
    assert (world.drivers, world.kills) == (["d0"], 0)
    assert (tmp_path / "log").read_text() == "printed\n"


async def test_a_driver_that_a_busy_cluster_accepts_late_is_found_by_the_next_runner(tmp_path: Path) -> None:
    world, timing = World(), RemoteTiming(poll=0.001, settle=0.05)
    world.state = DriverState.SUCCEEDED
    asyncio.get_running_loop().call_later(0.01, world.drivers.append, "d0")

    child = RemoteDriver(world, tmp_path / "log", confirmed, taken_over=True, timing=timing)

    assert await child.wait() == 0
    assert world.drivers == ["d0"]
    await child.close()


async def test_an_unreachable_cluster_fails_the_first_submission_only(tmp_path: Path) -> None:
    world = World(*(NotSentError("http://m cannot be reached") for _ in range(1000)))

    child = RemoteDriver(world, tmp_path / "log", confirmed, timing=QUICK)

    assert await child.wait() == 1
    assert child.verdict(1) == (RunState.FAILED, "the program cannot be submitted: http://m cannot be reached")
    assert world.drivers == []


async def test_a_standalone_master_that_is_not_there_is_named(tmp_path: Path) -> None:
    given = submission("spark://127.0.0.1:9", conf={"spark.master.ui.port": "9", "spark.master.rest.port": "9"})

    child = RemoteDriver(StandaloneBackend(given), tmp_path / "log", confirmed, timing=QUICK)

    found = child.verdict(await child.wait())
    assert found is not None
    assert found[0] is RunState.FAILED
    assert "cannot be submitted: http://127.0.0.1:9/json/ cannot be reached" in found[1]


async def test_a_killed_driver_is_ended_in_the_cluster(tmp_path: Path) -> None:
    world = World()
    child = RemoteDriver(world, tmp_path / "log", confirmed, timing=QUICK)
    while child.driver is None:
        await asyncio.sleep(0)

    await child.kill(grace=1.0)

    assert child.verdict(await child.wait()) == (RunState.KILLED, "its driver was killed in the cluster")
    assert world.kills == 1


async def test_a_runner_that_lost_its_run_submits_nothing_and_reports_no_end(tmp_path: Path) -> None:
    async def refused() -> None:
        raise ConflictError("another runner has it")

    world = World()
    child = RemoteDriver(world, tmp_path / "log", refused, timing=QUICK)

    done, _ = await asyncio.wait({asyncio.ensure_future(child.wait())}, timeout=0.05)

    assert not done
    assert world.drivers == []
    await child.close()

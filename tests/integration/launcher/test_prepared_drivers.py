"""Prepared drivers on real Spark: a run in one is a run of its own as a cold one is, and a driver is given once."""

from __future__ import annotations

# ruff: noqa: ASYNC240, T201  (small files, and no other task on this loop; figures for the report of a failed test)
import asyncio
import select
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runs import StopRequest
from streamsched.spark.calls.prepared_driver import NAME
from streamsched.spark.processes import LocalRunners
from streamsched.store.runs.run_queries import RunRecord
from tests.support.services import need_java

from .conftest import World, schedule
from .test_runner import ENDED, Place, eventually

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

PLAIN = schedule("plain")
#: A JVM starts within minutes on a busy machine.
SLOW_S = 400.0
PROGRAM = """
import os, sys, time
if "cold" in sys.argv:
    raise SystemExit(0)  # its profile is what counts
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "3")
if "other" in sys.argv:
    builder = builder.config("spark.task.maxFailures", "7")
spark = builder.getOrCreate()
jvm = spark._jvm.java.lang
run = os.environ["STREAMSCHED_RUN_ID"]
print("application", spark.sparkContext.applicationId, jvm.ProcessHandle.current().pid(), flush=True)
print("named", spark.sparkContext.appName, spark.conf.get("spark.sql.shuffle.partitions"), flush=True)
print("counted", spark.range(1000).selectExpr("sum(id)").first()[0], sys.argv[1:], flush=True)
print("jvm knows", [name for name in jvm.System.getenv() if name.startswith("STREAMSCHED")], flush=True)
print("udf knows", spark.range(1).select(udf(lambda _: os.environ.get("STREAMSCHED_RUN_ID"))("id")).first()[0] == run)
jvm.System.err.println("from the jvm of " + run)
if "wait" in sys.argv:
    while not os.path.exists(sys.argv[-1]):
        time.sleep(0.05)
if "fail" in sys.argv:
    raise SystemExit(7)
print("done", flush=True)
"""


class PreparedPlace(Place):
    """A launcher that prepares drivers."""

    def __init__(self, world: World, data_dir: Path, *, drivers: int = 1) -> None:
        super().__init__(world, data_dir, STREAMSCHED_PREPARED_DRIVERS=str(drivers))
        self.runners = LocalRunners(data_dir, self.environ, warm=True)
        self.run_monitor._runners = self.runners
        self.main = data_dir / "program.py"
        self.main.write_text(PROGRAM)
        self.sequence = 0

    async def begin(self, *arguments: str, conf: dict[str, str] | None = None) -> str:
        self.sequence += 1
        await self.world.define(PLAIN)
        await self.world.execute(SparkJob(str(self.main), arguments, None, conf or {}))
        await self.world.satisfy(self.world.ready(PLAIN, self.sequence))
        await self.launcher.run_once()
        return f"default.app.plain.1.{self.sequence}.r1"

    async def wait_for_end(self, run: str) -> RunRecord:
        return await self.reaches(*ENDED, run=run, within=SLOW_S)

    async def says(self, run: str, word: str) -> str:
        """The line of the run's log that begins with the word."""

        async def found() -> str:
            path = self.data_dir / "logs" / f"{run}.log"
            lines = path.read_text(errors="replace").splitlines() if path.exists() else ()
            return next((each for each in lines if each.startswith(word)), "")

        return await eventually(found, seconds=SLOW_S)

    def drivers(self) -> list[psutil.Process]:
        """All driver processes of this launcher."""
        server = self.runners._fork_server
        assert server is not None
        if server.pid is None:
            return []
        return [each for each in psutil.Process(server.pid).children() if "prepared_driver" in " ".join(_line(each))]

    async def prepared(self, count: int = 1) -> list[psutil.Process]:
        """The drivers that wait, when there are so many, with a context in each."""

        async def ready() -> list[psutil.Process]:
            found = [each for each in self.drivers() if _waits(each)]
            return found if len(found) >= count else []

        return await eventually(ready, seconds=SLOW_S)

    async def warm_up(self, count: int = 1) -> list[psutil.Process]:
        """A cold run; then drivers are prepared."""
        server = self.runners._fork_server
        assert server is not None
        server.start()
        assert server._socket is not None
        await asyncio.to_thread(select.select, [server._socket], (), (), SLOW_S)
        cold = await self.wait_for_end(await self.begin("cold"))
        assert (cold.state, cold.start) == ("COMPLETED", "cold: no driver is prepared for its settings"), cold
        return await self.prepared(count)


def _line(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _waits(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() == NAME and len(process.children()) == 1
    return False


async def gone(*processes: psutil.Process) -> None:
    async def has_ended() -> bool:
        return not [each for each in processes if each.is_running() and each.status() != "zombie"]

    await eventually(has_ended, seconds=60)


@pytest.fixture
async def place(world: World, tmp_path: Path) -> AsyncIterator[PreparedPlace]:
    need_java()
    place = PreparedPlace(world, tmp_path)
    yield place
    assert place.runners._fork_server is not None

    async def none_starts() -> bool:
        return all(_waits(each) for each in place.drivers())

    await eventually(none_starts, seconds=SLOW_S)  # one that is killed as it starts leaves its log
    left = [one for each in place.drivers() for one in (each, *each.children(recursive=True))]
    place.runners._fork_server.close()
    await gone(*left)
    assert not list((tmp_path / "drivers").glob("*"))


async def test_a_run_in_a_prepared_driver_is_as_a_cold_one_and_the_next_has_another(place: PreparedPlace) -> None:
    [driver] = await place.warm_up()
    jvm = driver.children()[0]
    print(f"waiting: JVM {jvm.memory_info().rss >> 20} MB, Python {driver.memory_info().rss >> 20} MB")
    began = time.monotonic()
    run = await place.begin("a", "--b")
    await place.says(run, "counted")
    print(f"counted after {time.monotonic() - began:.2f} s")
    first = await place.wait_for_end(run)
    log = Path(first.log_path or "").read_text()

    assert (first.state, first.exit_code, first.start) == ("COMPLETED", 0, "prepared"), (first, log)
    assert (await place.says(run, "application")).endswith(f" {jvm.pid}")
    for line in (f"named {run} 3", "counted 499500 ['a', '--b']", "jvm knows []", "udf knows True", "done"):
        assert line in log
    assert f"from the jvm of {run}" in log
    assert first.metrics is not None
    assert first.metrics.tasks_done == 2, first.metrics  # one of each query, and none of the warm-up
    await gone(driver, jvm)


@pytest.mark.nightly
async def test_a_driver_is_given_once_and_what_it_cannot_serve_starts_cold(place: PreparedPlace) -> None:
    [driver] = await place.warm_up()
    go = place.data_dir / "go"
    both = [await place.begin("wait", str(go)), await place.begin("wait", str(go))]
    applications = [await place.says(run, "application") for run in both]
    go.touch()
    ended = [await place.wait_for_end(run) for run in both]

    assert [each.state for each in ended] == ["COMPLETED", "COMPLETED"]
    assert len(set(applications)) == 2
    assert [each.start for each in ended] == ["prepared", "cold: its next driver is not ready yet"]
    await gone(driver)

    await place.prepared()
    other = await place.wait_for_end(await place.begin("other"))
    assert other.start == "prepared"
    assert await place.says(other.id, "a new context starts in the prepared driver, for the program sets")
    assert await place.says(other.id, f"named {other.id} 3")
    static = await place.wait_for_end(await place.begin("cold", conf={"spark.task.maxFailures": "6"}))
    assert (static.state, static.start) == ("COMPLETED", "cold: no driver is prepared for its settings")


@pytest.mark.nightly
async def test_a_driver_that_is_killed_while_it_waits_leaves_nothing(place: PreparedPlace) -> None:
    [driver] = await place.warm_up()
    waiting = driver.children()[0]
    waiting.kill()
    await gone(driver)
    [driver] = await place.prepared()
    waiting = driver.children()[0]
    driver.kill()
    await gone(waiting)

    async def has_no_log() -> bool:
        return not (place.data_dir / "drivers" / f"{driver.pid}.log").exists()

    await eventually(has_no_log)  # the fork server looks once a second


@pytest.mark.nightly
@pytest.mark.parametrize(
    "ends",
    [
        {"fails": ("FAILED", 7), "runner": ("LOST", None)},
        pytest.param(
            {"jvm": ("FAILED", -signal.SIGKILL), "driver": ("FAILED", -signal.SIGKILL)}, marks=pytest.mark.nightly
        ),
        pytest.param(
            {"python": ("FAILED", -signal.SIGKILL), "stop": ("KILLED", -signal.SIGTERM)}, marks=pytest.mark.nightly
        ),
    ],
)
async def test_whatever_is_killed_a_run_has_its_outcome_and_nothing_is_left(
    place: PreparedPlace, ends: dict[str, tuple[str, int | None]]
) -> None:
    await place.warm_up()
    never = str(place.data_dir / "never")

    async def lost() -> bool:
        return bool(await place.run_monitor.check_runs())

    for what, end in ends.items():
        [driver] = await place.prepared()
        [jvm] = driver.children()
        run = await place.begin(*(("fail",) if what == "fails" else ("wait", never)))
        await place.says(run, "udf knows")
        processes = [driver, *driver.children(recursive=True)]
        match what:
            case "jvm":
                jvm.kill()
            case "driver":
                driver.kill()
            case "python":
                next(each for each in driver.children() if each != jvm).kill()
            case "stop":
                await place.world.runs.stop(run, StopRequest("asked by a test"), now=place.world.clock.now())
            case "runner":
                (await place.runner(run)).kill()
                await gone(*processes)
                await eventually(lost)
        began = time.monotonic()
        found = await place.wait_for_end(run)
        await gone(*processes)
        print(f"{what}: {found.state} {found.exit_code} {found.reason} after {time.monotonic() - began:.1f} s")
        assert (found.state, found.exit_code, found.start) == (*end, "prepared"), found

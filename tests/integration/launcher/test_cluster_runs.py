"""Runs whose drivers are on a real standalone cluster: they outlive their runner, are found by the run's id, and a kill
leaves nothing."""

from __future__ import annotations

# ruff: noqa: ASYNC240  (small files, and no other task on this loop)
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runs import RunRecord, StopRequest
from tests.support.services import need_java
from tests.support.spark_cluster import SparkCluster, spark_cluster

from .conftest import World
from .test_runner import ENDED, RUN, Place, eventually

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(900)]

#: Starts of JVMs take minutes on a busy machine.
SLOW_S = 400.0
PROGRAM = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from streamsched.spark.context import current_run

with open(sys.argv[1] + "/began", "a") as file:
    print(current_run().run_id, file=file)
if sys.argv[2] != "0":
    sys.exit(int(sys.argv[2]))
spark = SparkSession.builder.getOrCreate()
print("counted", spark.range(1000).count(), flush=True)
open(sys.argv[1] + "/counted", "w").write("yes")
until = time.monotonic() + 600
while not Path(sys.argv[1] + "/go").exists() and time.monotonic() < until:
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    need_java()
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


class ClusterPlace(Place):
    """A launcher, and patience."""

    async def ended(self) -> RunRecord:
        async def record() -> RunRecord | None:
            found = await self.run()
            return found if found.state in ENDED else None

        return await eventually(record, seconds=SLOW_S)


def job(place: Place, cluster: SparkCluster, code: int = 0) -> SparkJob:
    (place.data_dir / "job.py").write_text(PROGRAM)
    return SparkJob(
        str(place.data_dir / "job.py"),
        (str(place.data_dir), str(code)),
        cluster.master,
        cluster.conf,
        deploy_mode=DeployMode.CLUSTER,
    )


async def test_a_driver_outlives_its_runner_and_the_next_runner_finds_it(
    world: World, tmp_path: Path, cluster: SparkCluster
) -> None:
    place, before = ClusterPlace(world, tmp_path), set(cluster.drivers())

    async def counted() -> bool:
        return (tmp_path / "counted").exists()

    await place.launch(job(place, cluster))
    await eventually(counted, seconds=SLOW_S)
    first = await place.runner()
    first.send_signal(signal.SIGKILL)
    first.wait(30)

    async def taken_over() -> bool:
        await place.run_monitor.check_runs()
        return (await place.run()).runner not in (None, str(first.pid)) and "run.taken_over" in await _history(world)

    await eventually(taken_over)
    (tmp_path / "go").touch()
    run = await place.ended()

    assert run.state == "COMPLETED", run
    assert (tmp_path / "began").read_text().split() == [RUN]
    (driver,) = set(cluster.drivers()) - before
    assert cluster.drivers()[driver] == "FINISHED"
    assert await world.column("SELECT driver FROM runs") == [driver]
    assert "counted 1000" in Path(run.log_path or "").read_text()


async def test_a_killed_run_leaves_no_driver_and_no_executor(
    world: World, tmp_path: Path, cluster: SparkCluster
) -> None:
    place = ClusterPlace(world, tmp_path)
    await place.launch(job(place, cluster))

    async def executing() -> bool:
        return bool(cluster.state()["activeapps"])

    await eventually(executing, seconds=SLOW_S)

    await world.runs.stop(RUN, StopRequest("asked by a test", at_once=True), now=world.clock.now())
    run = await place.ended()

    assert run.state == "KILLED"
    assert run.reason.startswith("asked by a test")

    async def nothing() -> bool:
        state = cluster.state()
        return not state["activeapps"] and not state["activedrivers"] and state["coresused"] == 0

    await eventually(nothing)


async def test_a_failed_driver_is_a_failed_run_with_its_reason(
    world: World, tmp_path: Path, cluster: SparkCluster
) -> None:
    place = ClusterPlace(world, tmp_path)
    await place.launch(job(place, cluster, code=3))

    run = await place.ended()

    assert run.state == "FAILED"
    assert "FAILED" in run.reason


async def test_a_master_that_does_not_exist_is_named(world: World, tmp_path: Path) -> None:
    place = ClusterPlace(world, tmp_path)
    (tmp_path / "job.py").write_text("")
    conf = {"spark.master.ui.port": "9", "spark.master.rest.port": "9"}
    await place.launch(
        SparkJob(str(tmp_path / "job.py"), (), "spark://127.0.0.1:9", conf, deploy_mode=DeployMode.CLUSTER)
    )

    run = await place.ended()

    assert run.state == "FAILED"
    assert "http://127.0.0.1:9/json/ cannot be reached" in run.reason


async def _history(world: World) -> list[str]:
    return await world.column("SELECT action FROM decisions WHERE subject_kind = 'run'")

"""Runs on a real standalone cluster: drivers there outlive their runner and are found by the run's id, a killed run
leaves nothing, and a failure has its reason."""

from __future__ import annotations

# ruff: noqa: ASYNC240  (small files, and no other task on this loop)
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runs import StopRequest
from streamsched.store.runs.run_queries import RunRecord
from tests.support.services import need_java
from tests.support.spark_cluster import SparkCluster, spark_cluster

from .conftest import World, schedule
from .test_runner import ENDED, Place, eventually

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(900)]

PLAIN = schedule("plain")
#: Starts of JVMs take minutes on a busy machine.
SLOW_S = 400.0
PROGRAM = """
import sys, time
from pathlib import Path
import words
from pyspark.sql import SparkSession
from streamsched.spark.context import current_run

folder, run = Path(sys.argv[1]), current_run().run_id
with open(folder / f"{run}.began", "a") as file:
    print("began", file=file)
spark = SparkSession.builder.getOrCreate()
there = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("words").WORD).first()
print("counted", spark.range(1000).count(), words.WORD, there, flush=True)
(folder / f"{run}.counted").touch()
until = time.monotonic() + 600
while not (folder / "go").exists() and time.monotonic() < until:
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    need_java()
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


class Cluster(Protocol):
    """Where drivers run. `conf`: settings with which programs reach it."""

    @property
    def master(self) -> str: ...

    @property
    def conf(self) -> Mapping[str, str]: ...


class ClusterPlace(Place):
    """A launcher of runs on a cluster, and patience."""

    def __init__(self, world: World, data_dir: Path, cluster: Cluster, **environ: str) -> None:
        super().__init__(world, data_dir, **environ)
        self.cluster = cluster
        self.sequence = 0

    async def begin(
        self,
        mode: DeployMode = DeployMode.CLUSTER,
        program: str = PROGRAM,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        packages: tuple[str, ...] = (),
    ) -> str:
        """Starts a run of the program; returns its id."""
        self.sequence += 1
        main = self.data_dir / f"job_{self.sequence}.py"
        main.write_text(program)
        await self.world.define(PLAIN)
        master, conf = master or self.cluster.master, {**self.cluster.conf, **(conf or {})}
        module = self.data_dir / "modules" / "words.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text("WORD = 'there'\n")
        needs = SparkNeeds(py_files=(str(module),), packages=packages)
        arguments = (str(self.data_dir),)
        await self.world.execute(SparkJob(str(main), arguments, master, conf, needs=needs, deploy_mode=mode))
        await self.world.satisfy(self.world.ready(PLAIN, self.sequence))
        await self.launcher.run_once()
        return f"default.app.plain.1.{self.sequence}.r1"

    async def counted(self, run: str) -> None:
        """Waits until the run has used an executor."""

        async def reached() -> bool:
            assert (found := await self.run(run)).state not in ENDED, found
            return (self.data_dir / f"{run}.counted").exists()

        await eventually(reached, seconds=SLOW_S)

    async def ended(self, run: str) -> RunRecord:
        async def record() -> RunRecord | None:
            found = await self.run(run)
            return found if found.state in ENDED else None

        return await eventually(record, seconds=SLOW_S)


@pytest.mark.nightly
async def test_a_driver_outlives_its_runner_and_the_next_runner_finds_it(
    world: World, tmp_path: Path, cluster: SparkCluster
) -> None:
    (shared := tmp_path / "event logs").mkdir()
    place = ClusterPlace(world, tmp_path, cluster, STREAMSCHED_SPARK_EVENT_LOGS=shared.as_uri())
    before = set(cluster.drivers())
    name = await place.begin()
    await place.counted(name)

    async def measured() -> bool:
        found = (await place.run(name)).metrics
        return found is not None and found.tasks_done >= 2

    await eventually(measured)
    first = await place.runner(name)
    first.send_signal(signal.SIGKILL)
    first.wait(30)

    async def taken_over() -> bool:
        await place.run_monitor.check_runs()
        return "run.taken_over" in await world.actions(kind="run")

    await eventually(taken_over)
    (tmp_path / "go").touch()
    run = await place.ended(name)

    assert run.state == "COMPLETED", run
    assert run.runner != str(first.pid)
    assert (tmp_path / f"{name}.began").read_text().split() == ["began"]
    (driver,) = set(cluster.drivers()) - before
    assert cluster.drivers()[driver] == "FINISHED"
    assert run.driver is not None
    assert (run.driver.id, run.driver.master) == (driver, cluster.master)
    assert f"/logPage/?driverId={driver}" in run.driver.logs
    assert "counted 1000 there there" in Path(run.log_path or "").read_text()
    print(run.metrics)  # noqa: T201 - for the report of a failed test
    assert run.metrics is not None
    assert run.metrics.complete
    assert run.metrics.tasks_done == run.metrics.tasks >= 3  # also those that the first runner had read
    assert (run.metrics.executors, run.metrics.executors_peak) == (0, 1)
    assert not list(shared.iterdir())


@pytest.mark.nightly
async def test_killed_runs_leave_no_driver_and_no_executor(world: World, tmp_path: Path, cluster: SparkCluster) -> None:
    place = ClusterPlace(world, tmp_path, cluster)
    runs = [await place.begin(mode) for mode in (DeployMode.CLIENT, DeployMode.CLUSTER)]
    for run in runs:
        await place.counted(run)

    for run in runs:
        await world.runs.stop(run, StopRequest("asked by a test", at_once=True), now=world.clock.now())

    for run in runs:
        ended = await place.ended(run)
        assert ended.state == "KILLED"
        assert ended.reason.startswith("asked by a test")

    async def nothing() -> bool:
        state = cluster.state()
        return not state["activeapps"] and not state["activedrivers"] and state["coresused"] == 0

    await eventually(nothing)
    assert cluster.processes_of_applications() == []
    measured = (await place.run(runs[0])).metrics  # of the driver beside its runner
    assert measured is not None
    assert measured.tasks_done >= 1
    assert measured.executors_peak == 1


@pytest.mark.nightly
async def test_an_import_that_fails_on_the_driver_is_the_reason(
    world: World, tmp_path: Path, cluster: SparkCluster
) -> None:
    place = ClusterPlace(world, tmp_path, cluster)

    run = await place.ended(await place.begin(program="import no_such_module\n"))

    assert run.state == "FAILED"
    assert "FAILED" in run.reason
    assert "ModuleNotFoundError: No module named 'no_such_module'" in run.reason


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"master": "sprk://there:7077"}, "Master must either be yarn or start with spark, k8s, or local"),
        ({"conf": {"spark.extraListeners": "no.such.Listener"}}, "ClassNotFoundException: no.such.Listener"),
    ],
)
async def test_a_wrong_master_and_an_unknown_class_are_named(
    world: World, tmp_path: Path, cluster: SparkCluster, given: dict[str, Any], why: str
) -> None:
    place = ClusterPlace(world, tmp_path, cluster)

    run = await place.ended(await place.begin(DeployMode.CLIENT, **{"master": "local[1]", **given}))

    assert run.state == "FAILED"
    assert why in run.reason

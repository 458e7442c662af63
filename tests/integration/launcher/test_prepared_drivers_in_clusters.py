"""Prepared drivers whose executors are in a cluster: they give the executors back while they wait."""

from __future__ import annotations

# ruff: noqa: ASYNC240, T201  (small files, and no other task on this loop; figures for the report of a failed test)
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamsched.domain.schedules.process_job import SparkJob
from tests.support.services import need_java
from tests.support.spark_cluster import spark_cluster
from tests.support.yarn_cluster import yarn_cluster

from .conftest import World
from .test_prepared_drivers import PLAIN, SLOW_S, PreparedPlace, gone
from .test_runner import eventually

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

#: A context that waits has no executors.
GIVES_BACK = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What runs of a program need to use it, and how many executors its applications hold."""

    master: str
    conf: dict[str, str]
    environ: dict[str, str]
    held: Callable[[], int]


@contextmanager
def cluster(kind: str, folder: Path) -> Iterator[Cluster]:
    """A real one, until the end of the block."""
    folder.mkdir()
    if kind == "standalone":
        with spark_cluster(folder) as standalone:
            yield Cluster(
                standalone.master, {**standalone.conf, **GIVES_BACK}, {}, lambda: standalone.state()["coresused"]
            )
        return
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    with yarn_cluster(folder, Path(tempfile.gettempdir()) / "mini-yarn-jars") as yarn:
        conf = {**yarn.conf(Path(spec.origin).parent, sys.executable), **GIVES_BACK}
        del conf["spark.executor.instances"]

        def held() -> int:
            """Containers beside those of the application masters."""
            with urllib.request.urlopen(f"http://127.0.0.1:{yarn.web}/ws/v1/cluster/apps", timeout=60) as answer:
                apps = (json.loads(answer.read()).get("apps") or {}).get("app") or []
            return sum(each["runningContainers"] - 1 for each in apps if each["state"] == "RUNNING")

        yield Cluster("yarn", conf, {"HADOOP_CONF_DIR": str(yarn.conf_dir)}, held)


@pytest.fixture(params=["standalone", pytest.param("yarn", marks=pytest.mark.nightly)])
async def place(
    request: pytest.FixtureRequest, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PreparedPlace, Cluster]]:
    need_java()
    with cluster(request.param, tmp_path / "cluster") as given:
        for name, value in given.environ.items():
            monkeypatch.setenv(name, value)
        (data_dir := tmp_path / "data").mkdir()
        place = PreparedPlace(world, data_dir)
        yield place, given
        server = place.runners._fork_server
        assert server is not None
        left = [one for each in place.drivers() for one in (each, *each.children(recursive=True))]
        server.close()
        await gone(*left)


@pytest.mark.nightly
async def test_a_driver_waits_without_executors_and_gets_them_for_its_run(place: tuple[PreparedPlace, Cluster]) -> None:
    here, given = place

    async def begin(*arguments: str) -> str:
        here.sequence += 1
        await here.world.define(PLAIN)
        await here.world.execute(SparkJob(str(here.main), arguments, given.master, given.conf))
        await here.world.satisfy(here.world.ready(PLAIN, here.sequence))
        await here.launcher.run_once()
        return f"default.app.plain.1.{here.sequence}.r1"

    server = here.runners._fork_server
    assert server is not None
    server.start()
    took = time.monotonic()
    cold = await here.wait_for_end(await begin("cold run"))
    assert cold.state == "COMPLETED", (cold, Path(cold.log_path or "").read_text())
    print(f"cold: {time.monotonic() - took:.1f} s")
    if cold.start == "cold: the fork server was not ready":
        cold = await here.wait_for_end(await begin("cold run"))
    assert cold.start == "cold: no driver is prepared for its settings"

    [driver] = await here.prepared()

    async def holds_none() -> bool:
        return not given.held()

    await eventually(holds_none, seconds=SLOW_S)
    assert driver.is_running()
    took = time.monotonic()
    run = await begin("prepared run")
    await here.says(run, "counted")
    print(f"counted after {time.monotonic() - took:.1f} s in a prepared driver")
    ended = await here.wait_for_end(run)

    assert (ended.state, ended.start) == ("COMPLETED", "prepared"), (ended, Path(ended.log_path or "").read_text())
    assert await here.says(run, "counted 499500 ['prepared run']")

"""What a killed driver leaves on a real standalone cluster: nothing, also where its Python does not ask its JVM."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from streamsched.ports.runs import StopRequest
from tests.support.spark_cluster import SparkCluster

from .conftest import World
from .test_cluster_runs import SLOW_S, ClusterPlace, cluster
from .test_runner import eventually

__all__ = ["cluster"]

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(900)]

SLEEPS = """
import os, sys, time
from pathlib import Path

Path(sys.argv[1], "pid.new").write_text(f"{os.getpid()} {os.getppid()}")
Path(sys.argv[1], "pid.new").rename(Path(sys.argv[1], "pid"))
time.sleep(600)
"""


async def test_the_python_of_a_killed_driver_ends(world: World, tmp_path: Path, cluster: SparkCluster) -> None:
    place = ClusterPlace(world, tmp_path, cluster)
    run = await place.begin(program=SLEEPS)

    async def begun() -> bool:
        return (tmp_path / "pid").exists()

    await eventually(begun, seconds=SLOW_S)
    python, driver = (psutil.Process(int(each)) for each in (tmp_path / "pid").read_text().split())
    await world.runs.stop(run, StopRequest("asked by a test", at_once=True), now=world.clock.now())
    assert (await place.ended(run)).state == "KILLED"

    _, alive = psutil.wait_procs([python, driver], timeout=30)
    for each in alive:
        each.kill()
    assert not alive

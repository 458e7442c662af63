"""Libraries of programs by their Maven coordinates, on a real standalone cluster and on a real YARN: driver and
executors have them. And the metrics of a driver on YARN."""

from __future__ import annotations

# ruff: noqa: ASYNC240  (small files, and no other task on this loop)
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamsched.store.runs.run_queries import RunRecord
from tests.support.java_classes import need_compiler
from tests.support.maven_repository import TINY, maven_repository
from tests.support.services import need_java, need_program
from tests.support.spark_cluster import SparkCluster
from tests.support.yarn_cluster import YarnCluster, yarn_cluster

from .conftest import World
from .test_cluster_runs import ClusterPlace, cluster

__all__ = ["cluster"]

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(900)]

USES_TINY = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.udf.registerJavaFunction("word", "tiny.Word", "string")
print("said", [row[0] for row in spark.range(0, 2, 1, 2).selectExpr("word(id)").collect()], flush=True)
"""


@dataclass(frozen=True, slots=True)
class Yarn:
    """YARN as programs reach it."""

    cluster: YarnCluster
    master: str = "yarn"

    @property
    def conf(self) -> Mapping[str, str]:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        return self.cluster.conf(Path(spec.origin).parent, sys.executable)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    need_java()
    need_program("mvn", "maven")
    need_compiler()
    folder = tmp_path_factory.mktemp("yarn")
    with yarn_cluster(folder, Path(tempfile.gettempdir()) / "mini-yarn-jars") as found:
        yield Yarn(found)


async def ended(place: ClusterPlace, tmp_path: Path) -> RunRecord:
    run = await place.begin(program=USES_TINY, conf=maven_repository(tmp_path / "maven"), packages=(TINY,))
    return await place.ended(run)


async def test_a_standalone_cluster_gets_the_packages_of_a_program(
    world: World, tmp_path: Path, cluster: SparkCluster
) -> None:
    run = await ended(ClusterPlace(world, tmp_path, cluster), tmp_path)

    assert run.state == "COMPLETED", (run, Path(run.log_path or "").read_text()[-3000:])
    assert "said ['word 0', 'word 1']" in Path(run.log_path or "").read_text()
    assert run.metrics is None  # the installation has no folder for event logs


async def test_yarn_gets_the_packages_of_a_program_and_its_run_is_measured(
    world: World, tmp_path: Path, yarn: Yarn
) -> None:
    (shared := tmp_path / "events").mkdir()
    place = ClusterPlace(
        world,
        tmp_path,
        yarn,
        HADOOP_CONF_DIR=str(yarn.cluster.conf_dir),
        STREAMSCHED_SPARK_EVENT_LOGS=str(shared),
    )

    run = await ended(place, tmp_path)

    assert run.state == "COMPLETED", (run, Path(run.log_path or "").read_text()[-3000:])
    assert "said ['word 0', 'word 1']" in Path(run.log_path or "").read_text()
    print(run.metrics)  # noqa: T201 - for the report of a failed test
    assert run.metrics is not None
    assert run.metrics.complete
    assert run.metrics.tasks_done == 2
    assert run.metrics.executors_peak == 1
    assert not list(shared.iterdir())

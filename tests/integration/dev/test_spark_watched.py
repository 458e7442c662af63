"""One Spark job of another scheduler: OpenLineage's listener starts programs by it, and its metrics grow while it runs.

None of the job's code is ours. The job goes on only after the test has seen its metrics while a stage was running.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.schedules.schedule import SparkJob
from streamsched.ports.clock import SystemClock
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.spark.command import RunEnvironment
from streamsched.spark.runner import Runner, Timing
from tests.support.dev_process import CommandOutput, DevProcess
from tests.support.run_book import RunBook
from tests.support.services import need_java
from tests.support.spark_jars import need_jar

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(600)]

APP = """
from streamsched import App, partitions, program

app = App("demo")
hello = app.bash("hello", "echo hello")
app.schedule("by-data", hello, when=partitions("flights", 1))
app.schedule("by-job", hello, when=program("default.nightly.etl", "succeeded"))
"""
JOB = """
import sys
from operator import add
from pyspark.sql import SparkSession

output, pipe = sys.argv[1:]
spark = SparkSession.builder.appName("etl").getOrCreate()

def day(number):
    if number == 7:
        open(pipe).close()  # returns when the test opens it
    return number % 3, 1

spark.sparkContext.parallelize(range(8), 8).map(day).reduceByKey(add, 2).collect()
spark.range(1000, numPartitions=2).selectExpr("id", "id % 3 AS day").write.partitionBy("day").parquet(output)
spark.stop()
"""
RUN = "default.app.etl.1.1.r1"


class Store(RunBook):
    """Keeps the metrics that the runner stores. Opens the pipe when `deployed` and a stage is half done."""

    def __init__(self, job: SparkJob, pipe: Path) -> None:
        super().__init__(job, "etl")
        self.pipe = pipe
        self.deployed = False
        self.stored: list[RunMetrics] = []

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None:
        self.stored += [] if metrics is None else [metrics]
        if self.deployed and self.stored and 0 < self.stored[-1].tasks_done < 8:
            with suppress(OSError):  # the task does not wait yet
                os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
        return None


def listening(dev: DevProcess) -> dict[str, str]:
    """Spark's settings of the listener, which sends to this API."""
    return {
        "spark.jars": str(need_jar("io.openlineage", "openlineage-spark_2.13", "1.53.0")),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": json.loads((dev.state / "dev.json").read_text())["url"],
        "spark.openlineage.transport.endpoint": "/api/v1/lineage",
        "spark.openlineage.transport.auth.type": "api_key",
        "spark.openlineage.transport.auth.apiKey": dev.token,
        "spark.openlineage.namespace": "nightly",
    }


async def executed(dev: DevProcess, lake: Path) -> tuple[Store, RunEnd]:
    """Executes the job as another scheduler would, while the application is deployed to `dev`."""
    main, pipe = dev.folder / "etl.py", dev.folder / "pipe"
    main.write_text(JOB)
    os.mkfifo(pipe)
    quick = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.metrics.pollingInterval": "10ms",  # its tasks are short
    }
    store = Store(SparkJob(str(main), (str(lake), str(pipe)), conf={**quick, **listening(dev)}), pipe)
    site = RunEnvironment(
        data_dir=dev.folder / "data", spark_master="local[2]", emit_url="http://127.0.0.1:1", environ=os.environ
    )
    timing = Timing(heartbeat=timedelta(milliseconds=200), metrics=timedelta(milliseconds=100))
    runner = Runner(store, SystemClock(), site, timing)
    too_long = asyncio.get_running_loop().call_later(300, runner.stop, "it took too long")

    async def deployed() -> CommandOutput:
        done = await asyncio.to_thread(dev.run, "deploy", "app.py")
        store.deployed = True
        return done

    ending, deploy = await asyncio.gather(runner.execute(RUN), deployed())
    too_long.cancel()
    assert deploy.code == 0, deploy.err
    assert ending is not None
    return store, ending


def check_metrics(stored: list[RunMetrics], found: RunMetrics | None) -> None:
    assert any(0 < each.tasks_done < 8 for each in stored), stored
    assert [each.tasks_done for each in stored] == sorted(each.tasks_done for each in stored)
    assert found is not None
    assert found.complete
    assert (found.tasks_done, found.tasks_failed) == (found.tasks, 0)
    assert found.tasks >= 12
    assert (found.output_rows, found.executors, found.executors_peak) == (1000, 0, 1)
    assert found.shuffle_write_bytes > 0
    assert found.executor_seconds > 0
    assert found.peak_memory_bytes > 10**7


@pytest.mark.nightly
def test_a_foreign_job_starts_programs_and_is_measured(tmp_path: Path) -> None:
    need_java()
    (tmp_path / "app.py").write_text(APP)
    dev = DevProcess(tmp_path)
    lake = tmp_path / "lake" / "flights"
    dev.start(STREAMSCHED_LINEAGE_DATASETS=f"{lake}=default.flights")
    try:
        store, ending = asyncio.run(executed(dev, lake))

        assert ending.state is RunState.COMPLETED, (tmp_path / "data" / "logs" / f"{RUN}.log").read_text()[-3000:]
        check_metrics(store.stored, ending.metrics)
        assert not (tmp_path / "data" / "runs" / f"{RUN}.events").exists()
        dev.until(lambda: dev.completed("default.demo.by-data.1.1.r1", "default.demo.by-job.1.1.r1"), within=60)
    finally:
        dev.close()

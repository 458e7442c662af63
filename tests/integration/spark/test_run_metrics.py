"""The metrics of a run on real Spark: while its tasks end, and at its end."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Program, SparkJob
from streamsched.ports.clock import SystemClock
from streamsched.ports.runs import Assignment, RunEnd, StopRequest
from streamsched.spark.command import RunEnvironment
from streamsched.spark.runner import Runner, Timing
from tests.support.services import need_java

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

RUN = "default.app.slow.1.1.r1"
JOB = """
import sys, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
frame = spark.range(0, 1000, 1, 40).rdd.map(lambda row: (time.sleep(0.01), row[0])[1])
frame.map(lambda n: (n % 3, 1)).reduceByKey(lambda a, b: a + b, 2).collect()
spark.range(500).write.parquet(sys.argv[1])
spark.stop()
"""


class Store:
    """Keeps what the runner stores."""

    def __init__(self, job: SparkJob) -> None:
        self.program = Program(ProgramRef("default", "app", "slow"), job)
        self.stored: list[RunMetrics] = []

    async def claim(self, run: str, *, runner: str, log_path: str | None, now: datetime) -> Assignment | None:
        return Assignment(run, 1, self.program, {})

    async def started(self, run: str, *, runner: str, now: datetime, start: str = "") -> None:
        return None

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None:
        self.stored += [] if metrics is None else [metrics]
        return None

    async def finish(self, run: str, ending: RunEnd) -> bool:
        return True


async def test_metrics_grow_while_a_stage_runs_and_are_complete_at_the_end(tmp_path: Path) -> None:
    need_java()
    main = tmp_path / "job.py"
    main.write_text(JOB)
    job = SparkJob(str(main), (str(tmp_path / "out"),), conf={"spark.driver.host": "127.0.0.1"})
    store = Store(job)
    site = RunEnvironment(
        data_dir=tmp_path / "data", spark_master="local[2]", emit_url="http://127.0.0.1:1", environ=os.environ
    )
    timing = Timing(heartbeat=timedelta(milliseconds=200), metrics=timedelta(milliseconds=100))

    ending = await Runner(store, SystemClock(), site, timing).execute(RUN)

    assert ending is not None
    log = (tmp_path / "data" / "logs" / f"{RUN}.log").read_text()[-3000:]
    assert ending.state is RunState.COMPLETED, log
    found = ending.metrics
    assert found is not None
    assert found.complete
    assert (found.tasks_done, found.tasks_failed) == (found.tasks, 0)
    assert found.tasks >= 42
    assert (found.output_rows, found.executors, found.executors_peak) == (500, 0, 1)
    assert found.shuffle_write_bytes > 0
    assert found.executor_seconds > 0
    assert found.peak_memory_bytes > 10**7
    within = [each for each in store.stored if 0 < each.tasks_done < 40]
    assert within, store.stored
    assert [each.tasks_done for each in store.stored] == sorted(each.tasks_done for each in store.stored)
    assert not (tmp_path / "data" / "runs" / f"{RUN}.events").exists()

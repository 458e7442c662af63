"""A JVM that outlives its program's Python on real Spark: the run ends, with the outcome of Python."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runs import RunEnd
from streamsched.spark.files import RunFiles

from .test_bad_programs import RUN, ended

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

BEGIN = """
import os, signal, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
"""
THREAD = """
pool = spark._jvm.java.util.concurrent.Executors.newFixedThreadPool(1)
pool.prestartAllCoreThreads()  # a thread of the kind that keeps a JVM alive
spark.stop()
print("python is done", flush=True)
"""
STOPPED = """
os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGSTOP)  # it answers nothing any more
os._exit(7)
"""


async def end_of(tmp_path: Path, text: str) -> RunEnd:
    main = tmp_path / "job.py"
    main.write_text(BEGIN + text)
    async with asyncio.timeout(200):
        return await ended(SparkJob(str(main)), tmp_path / "data")


async def test_a_thread_that_a_library_leaves_does_not_keep_the_run(java: None, tmp_path: Path) -> None:
    ending = await end_of(tmp_path, THREAD)

    assert (ending.state, ending.reason, ending.exit_code) == (RunState.COMPLETED, "exit code 0", 0)
    assert "python is done" in RunFiles(tmp_path / "data", RUN).log.read_text()
    assert not RunFiles(tmp_path / "data", RUN).driver_python.executable.exists()


async def test_a_jvm_that_does_not_end_is_killed_and_the_outcome_is_that_of_python(java: None, tmp_path: Path) -> None:
    ending = await end_of(tmp_path, STOPPED)

    assert (ending.state, ending.reason, ending.exit_code) == (RunState.FAILED, "exit code 7", 7)

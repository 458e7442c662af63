"""Programs that cannot work: the reason of the run says why."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import BashJob
from streamsched.ports.clock import SystemClock
from streamsched.ports.runs import RunEnd
from streamsched.spark.command import RunEnvironment
from streamsched.spark.runner import Runner
from tests.support.run_book import RunBook
from tests.support.services import need

RUN = "default.app.plain.1.1.r1"


async def ended(executable: BashJob | SparkJob, data_dir: Path) -> RunEnd:
    site = RunEnvironment(data_dir=data_dir, spark_master="local[1]", emit_url="http://127.0.0.1:1", environ=os.environ)
    run_store = RunBook(executable)
    await Runner(run_store, SystemClock(), site).execute(RUN)
    [ending] = run_store.ended
    return ending


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A data folder on a disk of its own with room for little."""
    need("a user who can mount a tmpfs", os.geteuid() == 0, "run as root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False)
    need("a tmpfs", mounted.returncode == 0, "run where mounts are allowed")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_a_disk_that_becomes_full_is_the_reason_of_the_run(full: Path) -> None:
    ending = await ended(BashJob("set -e; for n in $(seq 5000); do echo some words of a log $n; done"), full)

    assert ending.state is RunState.FAILED
    assert ending.reason.startswith("exit code 1"), ending.reason
    assert ending.reason.endswith(f"the disk with the log's folder, {full}/logs, is full")


async def test_a_disk_that_is_full_before_the_run_is_its_reason(full: Path) -> None:
    for folder in ("logs", "runs", "spool"):
        (full / folder).mkdir()
    with pytest.raises(OSError, match="No space left"):
        (full / "filler").write_bytes(bytes(100_000))

    ending = await ended(BashJob("echo words"), full)

    assert ending.state is RunState.FAILED
    assert "the program cannot be started: [Errno 28] No space left on device" in ending.reason


async def test_a_program_that_ignores_a_full_disk_completes(full: Path) -> None:
    ending = await ended(BashJob("seq 50000 2>/dev/null || true"), full)

    assert (ending.state, ending.reason) == (RunState.COMPLETED, "exit code 0")


@pytest.mark.spark
async def test_an_import_error_on_the_driver_is_the_reason_of_the_run(java: None, tmp_path: Path) -> None:
    main = tmp_path / "job.py"
    main.write_text("import no_such_library\n")

    ending = await ended(SparkJob(str(main)), tmp_path / "data")

    assert ending.state is RunState.FAILED
    assert ending.reason == "exit code 1: ModuleNotFoundError: No module named 'no_such_library'"


async def test_a_missing_main_is_the_reason_of_the_run(java: None, tmp_path: Path) -> None:
    ending = await ended(SparkJob(str(tmp_path / "none.py")), tmp_path / "data")

    assert ending.state is RunState.FAILED
    assert f"the program's main file {tmp_path}/none.py does not exist" in ending.reason

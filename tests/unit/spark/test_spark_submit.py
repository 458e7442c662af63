"""The end of `spark-submit` follows from that of Python. A shell stands in for the JVM."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.spark.drivers.spark_submit import DriverPython, SparkSubmit

#: As Spark does: starts the driver's Python and takes its exit code over.
STARTS = '"$PYSPARK_DRIVER_PYTHON" -c {program}; code=$?; '


async def submitted(folder: Path, jvm: str, program: str, leftover_s: float = 0.2) -> tuple[int, SparkSubmit]:
    """The exit code of a submission that has been closed."""
    python = DriverPython(folder / "it's python", folder / "its end")
    script = STARTS.format(program=shlex.quote(program)) + jvm
    with (folder / "log").open("ab") as log:
        child = await SparkSubmit.submit(
            ("/bin/sh", "-c", script),
            env={**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable},
            output=log.fileno(),
            python=python,
            leftover_s=leftover_s,
        )
    code = await child.wait()
    return code, child


@pytest.mark.parametrize(
    ("jvm", "program", "expected"),
    [
        ("exit $code", "", 0),
        ("exit $code", "raise SystemExit(7)", 7),
        ("sleep 600", "", 0),
        ("sleep 600", "raise SystemExit(7)", 7),
        ("kill -9 $$", "", 0),
        ("kill -9 $$", "raise SystemExit(1)", -9),
        ("exit 52", "raise SystemExit(1)", 52),
        ("exit $code", "import os; os.kill(os.getpid(), 9)", 137),
    ],
)
async def test_the_outcome_is_pythons_where_the_jvm_says_no_more(
    tmp_path: Path, jvm: str, program: str, expected: int
) -> None:
    code, child = await submitted(tmp_path, jvm, program)

    assert code == expected
    verdict = child.verdict(code)
    if expected:
        assert verdict is None
    else:
        assert verdict is not None
        assert verdict[0] is RunState.COMPLETED
        assert ("JVM was killed" in verdict[1]) == ("sleep" in jvm)
    await child.close()
    assert [each.name for each in tmp_path.iterdir()] == ["log"]  # noqa: ASYNC240


async def test_a_kill_after_a_good_end_of_python_changes_nothing(tmp_path: Path) -> None:
    python = DriverPython(tmp_path / "python", tmp_path / "end")
    script = STARTS.format(program="''") + "sleep 600"
    with (tmp_path / "log").open("ab") as log:
        child = await SparkSubmit.submit(
            ("/bin/sh", "-c", script),
            env={**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable},
            output=log.fileno(),
            python=python,
        )
    while python.exit_code() is None:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    await child.kill(grace=0.0)

    assert (await child.wait(), child.verdict(0)) == (0, (RunState.COMPLETED, "exit code 0"))
    await child.close()

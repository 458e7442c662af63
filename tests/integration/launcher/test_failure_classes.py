"""The class of a failure, of real processes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from streamsched.domain.jobs.failure import Failure
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import BashJob

from .conftest import World, schedule
from .test_runner import PLAIN, RUN, Place

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(("command", "code"), [("bash -c 'kill -9 $$'; exit $?", 137), ("exit 143", 143)])
async def test_a_signal_that_a_shell_reports_is_a_crash_and_is_repeated_as_one(
    world: World, tmp_path: Path, command: str, code: int
) -> None:
    place = Place(world, tmp_path)
    policy = Retry(2, frozenset({Failure.CRASH}), delay=timedelta(0))
    await place.world.define(schedule("plain", retry=policy))
    await place.world.execute(BashJob(f"echo 'WARN NativeCodeLoader: Unable to load'; {command}"))
    await place.world.satisfy(place.world.ready(PLAIN, 1))
    await place.launcher.run_once()

    run = await place.reaches("FAILED")

    assert (run.exit_code, run.failure) == (code, Failure.CRASH)
    assert run.reason.startswith(f"killed by signal {code - 128}")
    assert "WARN" not in run.reason
    job = await place.world.jobs.get("default.app.plain.1.1")
    assert job.runs == (RUN, "default.app.plain.1.1.r2")

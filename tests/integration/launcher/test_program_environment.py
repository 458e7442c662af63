"""The variables of a launcher in the processes of its programs, and what a failed run says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.domain.schedules.process_job import BashJob
from streamsched.spark.processes import LocalRunners

from .conftest import World
from .test_runner import ENDED, RUN, Place

pytestmark = pytest.mark.postgres


async def test_programs_get_the_variables_of_the_launcher_that_are_named(world: World, tmp_path: Path) -> None:
    place = Place(world, tmp_path, DB_PASSWORD="s3cret", LC_TIME="C", SHOP_ZONE="eu", FTP_KEY="k")
    place.runners = LocalRunners(tmp_path, {**place.environ, "STREAMSCHED_PROGRAM_ENVIRONMENT": "PATH,LC_*,SHOP_*"})
    place.run_monitor._runners = place.runners

    await place.launch(BashJob("env"))

    await place.reaches("COMPLETED")
    names = {line.partition("=")[0] for line in (tmp_path / "logs" / f"{RUN}.log").read_text().splitlines()}
    assert {"PATH", "LC_TIME", "SHOP_ZONE", "STREAMSCHED_RUN_ID"} <= names
    assert not {"DB_PASSWORD", "FTP_KEY", "HOME"} & names


async def test_a_failed_run_names_the_variables_that_it_misses(world: World, tmp_path: Path) -> None:
    place = Place(world, tmp_path, SHOP_REGION="eu", SHOP_OTHER="x")

    await place.launch(BashJob("set -u; echo in $SHOP_REGION"))

    run = await place.reaches(*ENDED)
    assert run.state == "FAILED"
    assert "SHOP_REGION is a variable of the launcher that programs do not get" in run.reason
    assert "SHOP_OTHER" not in run.reason

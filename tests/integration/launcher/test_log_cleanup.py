"""The files of runs go with the last that is known of them, on the host where they are."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from streamsched.domain.decisions.retention import Retention
from streamsched.domain.jobs.run import RunState
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import Limits
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.start import start
from streamsched.ports.runs import RunEnd
from streamsched.spark.files import RunFiles
from streamsched.spark.log_cleanup import LogCleanup, RunFileStore
from streamsched.store.jobs.archive import Archive

from .conftest import PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)
KEEP = 30 * DAY
#: Files that a run may leave.
FILES = len(RunFiles(Path(), "r").all)


def leave(folder: Path, run: str, at: datetime) -> None:
    """The files that a runner leaves, as old as the settable clock says."""
    files = RunFiles(folder, run)
    files.make_folders()
    for path in files.all:
        path.write_text("x")
        os.utime(path, (at.timestamp(), at.timestamp()))


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


async def run_of(world: World, token: str, folder: Path, *, ends: bool = True) -> str:
    run = await start(world.runs, world.clock, PROGRAM, {}, token=token)
    now = world.clock.now()
    assert await world.run_store.claim(run, runner="here:1:1", log_path="/log", now=now)
    await world.run_store.mark_started(run, runner="here:1:1", now=now)
    if ends:
        await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))
    leave(folder, run, now)
    return run


@pytest.mark.long
async def test_a_year_of_runs_leaves_a_month_of_files(world: World, tmp_path: Path) -> None:
    archive = Archive(world.pool)
    await world.define(schedule("plain"))
    retiring = ArchiveLoop(archive, Retention(jobs=KEEP), world.clock)
    log_cleanup = LogCleanup(RunFileStore(tmp_path), archive, world.clock, keep=KEEP)
    endless = await run_of(world, "endless", tmp_path, ends=False)
    last = ""
    for day in range(0, 366, 5):
        last = await run_of(world, f"d{day}", tmp_path)
        await retiring.run_once()
        await log_cleanup.run_once()
        world.clock.advance(5 * DAY)

    runs = {name.removesuffix(".json") for name in left(tmp_path) if name.endswith(".json")}
    assert len(runs) <= 1 + 35 // 5 + 1
    assert {endless, last} <= runs, "a run that still runs keeps its files, however old"
    assert len(left(tmp_path)) == FILES * len(runs), "all of a run's files, or none"


async def test_what_is_young_or_not_a_run_s_stays(world: World, tmp_path: Path) -> None:
    """A run whose record another installation has, or that has no record yet, is not taken for a forgotten one."""
    leave(tmp_path, "default.app.unheard.1.1.r1", world.clock.now())
    (tmp_path / "logs" / "notes.txt").write_text("mine")
    log_cleanup = LogCleanup(RunFileStore(tmp_path), Archive(world.pool), world.clock, keep=KEEP)
    world.clock.advance(KEEP - DAY)

    assert await log_cleanup.run_once() == 0

    world.clock.advance(2 * DAY)
    assert await log_cleanup.run_once() == FILES
    assert left(tmp_path) == {"notes.txt"}
    assert await log_cleanup.run_once() == 0


async def test_a_host_without_a_folder_has_nothing_to_tidy(world: World, tmp_path: Path) -> None:
    log_cleanup = LogCleanup(RunFileStore(tmp_path / "none"), Archive(world.pool), world.clock, keep=KEEP)

    assert await log_cleanup.run_once() == 0


async def test_the_logs_of_a_namespace_are_emptied_over_its_quota_the_oldest_first(
    world: World, tmp_path: Path
) -> None:
    await world.define(schedule("plain"))
    runs = [await run_of(world, f"t{number}", tmp_path, ends=number != 0) for number in range(5)]
    for number, run in enumerate(runs):
        log = RunFiles(tmp_path, run).log
        log.write_bytes(b"x" * 40_960)
        os.utime(log, (number, number))
    foreign = tmp_path / "logs" / "sales.app.join.manual-1.r1.log"
    foreign.write_bytes(b"y" * 409_600)
    victim = tmp_path / "victim"
    victim.write_bytes(b"z" * 40_960)
    RunFiles(tmp_path, runs[1]).log.unlink()
    RunFiles(tmp_path, runs[1]).log.symlink_to(victim)

    async def limits() -> Limits:
        return {"default": {Quota.LOGS: 130_000}}

    archive = Archive(world.pool)
    cleanup = LogCleanup(RunFileStore(tmp_path), archive, world.clock, keep=KEEP, limits=limits)
    await cleanup.run_once()
    await cleanup.run_once()

    texts = [RunFiles(tmp_path, run).log.read_bytes() for run in runs]
    said = "[40960 bytes of this log were removed: the logs of namespace default had more than its quota log_bytes"
    assert texts[2].decode().startswith(said)
    assert texts[2].count(b"\n") == 1
    assert [len(text) for text in (texts[0], texts[1], texts[3], texts[4])] == [40_960] * 4, (
        "the active one, and the last"
    )
    assert (victim.stat().st_size, foreign.stat().st_size) == (40_960, 409_600)


def test_files_that_another_launcher_of_the_host_removes_meanwhile_are_passed_over(tmp_path: Path) -> None:
    runs = [f"default.app.p.{number}" for number in range(3)]
    for run in runs:
        leave(tmp_path, run, datetime.now().astimezone())
    found = RunFileStore(tmp_path)._files()
    next(found)

    RunFileStore(tmp_path).clear(runs)

    list(found)
    assert not left(tmp_path)

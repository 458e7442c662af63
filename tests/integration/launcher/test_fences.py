"""A run that was given up, and that no attempt follows, is fenced where its program declares its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from streamsched.domain.datasets.file_set_commit import JobEpoch
from streamsched.domain.errors import AttemptFencedError
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.programs.output import OutputFormat, ProgramOutput
from streamsched.domain.schedules.process_job import BashJob, PythonJob
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Executable, Program, PublishJob
from streamsched.launcher.run_monitor import RunTimeouts
from streamsched.ports.runs import RunEnd
from streamsched.spark.command import RunEnvironment
from streamsched.spark.fences.fence_writer import FenceWriter
from streamsched.spark.needs.preparation import Preparation
from streamsched.spark.pfs import PartitionedFileSet
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.iceberg import IcebergDataset
from streamsched.store.datasets.file_set_commits import FileSetCommitStore
from streamsched.store.runs.fences import MOST_TRIES, FenceStore
from streamsched.store.runs.run_monitor import SilentRun
from tests.support.arrow_frame import ArrowFrame
from tests.support.run_environ import process_environ

from .conftest import MINUTE, PROGRAM, World, schedule
from .test_runner import Place as RealPlace
from .test_runner import eventually

pytestmark = pytest.mark.postgres

WRITES = schedule("writes")
JOB = "default.app.writes.1.1"
DAYS = pa.table({"day": ["1", "2"], "n": [1, 2]})
Write = Callable[[dict[str, str]], object]


class Given:
    """The run of a job whose runner is gone, on a machine with these variables."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.store = FenceStore(world.pool)
        self.environ = dict(os.environ)
        self._data = folder / "data"

    async def mark_lost(self, executable: Executable, *outputs: ProgramOutput) -> str:
        world, now = self.world, self.world.clock.now()
        await world.define(WRITES)
        await world.put_program(Program(PROGRAM, executable, {}, outputs))
        await world.satisfy(world.ready(WRITES, 1))
        await world.launcher.run_once()
        run = f"{JOB}.r1"
        assert await world.run_store.claim(run, runner="h:1:1", log_path="/log", now=now)
        assert await world.run_store.mark_lost(SilentRun(run, 1, "h:1:1", now), "gone", now=now, attempts=1)
        return run

    async def fence(self, run: str) -> None:
        """What the process does that the launcher starts."""
        await self.world.run_monitor.check_runs()
        assert self.world.runners.fenced[-1:] == [run]
        runtime = RunEnvironment(
            data_dir=self._data, spark_master="local", emit_url="", environ=self.environ, signing_key=b"k"
        )
        await FenceWriter(self.store, self.world.clock, runtime, Preparation()).write(run)

    async def known(self, run: str) -> str | None:
        return (await self.world.runs.get(run)).fence

    async def due(self) -> list[str]:
        self.world.clock.advance(600 * MINUTE)
        return list(await self.store.claim_due(self.world.clock.now(), limit=10))


@pytest.fixture
def given(world: World, tmp_path: Path) -> Given:
    return Given(world, tmp_path)


def place(kind: str, folder: Path, environ: dict[str, str]) -> tuple[ProgramOutput, Write]:
    """An output of a kind, which exists, and what writes it."""
    dataset = DatasetRef("default", "out")
    match kind:
        case "folder" | "url":
            location = str(folder / "lake") if kind == "folder" else f"file://{folder}/lake"
            rows = cast("Any", ArrowFrame({"day=1": 1}))
            return ProgramOutput(dataset, location=location), lambda run: PartitionedFileSet(
                dataset, location, environ=run
            ).write(rows, partition_by=["day"])
        case "delta":
            location = str(folder / "lake")
            DeltaDataset(dataset, location, environ={}).write(DAYS, partition_by=["day"])
            return ProgramOutput(dataset, OutputFormat.DELTA, location), lambda run: DeltaDataset(
                dataset, location, environ=run
            ).write(DAYS, partition_by=["day"])
        case _:
            from pyiceberg.catalog import load_catalog

            options = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
            environ |= {f"PYICEBERG_CATALOG__LAKE__{name.upper()}": value for name, value in options.items()}
            catalog = load_catalog("lake", **options)
            catalog.create_namespace("db")
            catalog.create_table("db.out", schema=DAYS.schema)
            return ProgramOutput(dataset, OutputFormat.ICEBERG, "lake.db.out"), lambda run: IcebergDataset(
                dataset, "db.out", catalog="lake", options=options, environ=run
            ).write(DAYS)


@pytest.mark.parametrize("kind", ["folder", "url", "delta", "iceberg"])
async def test_a_run_that_was_given_up_commits_no_more(given: Given, kind: str, tmp_path: Path) -> None:
    output, write = place(kind, tmp_path, given.environ)
    run = await given.mark_lost(BashJob("true"), output)
    assert await given.known(run) == "may still commit: its outputs are not fenced yet"

    await given.fence(run)

    assert await given.known(run) == "commits no more to default.out"
    assert await given.due() == []
    with pytest.raises(AttemptFencedError):
        write(process_environ(JOB))


async def test_where_a_store_is_away_the_run_may_still_commit_and_it_is_tried_again(
    given: Given, tmp_path: Path
) -> None:
    away = ProgramOutput(DatasetRef("default", "away"), OutputFormat.DELTA, str(tmp_path / "none"))
    unknown = ProgramOutput(DatasetRef("default", "unknown"))
    here, write = place("folder", tmp_path, {})
    run = await given.mark_lost(BashJob("true"), away, unknown, here)

    await given.fence(run)

    known = await given.known(run)
    assert known is not None
    assert known.startswith("may still commit to default.away (")
    assert known.endswith("default.unknown (its place is not declared)")
    with pytest.raises(AttemptFencedError):
        write(process_environ(JOB))
    for _ in range(MOST_TRIES - 1):
        assert await given.due() == [run]
    assert await given.due() == []


async def test_commits_that_are_rows_are_fenced_without_a_process(given: Given) -> None:
    out = ProgramOutput(DatasetRef("default", "out"), location="memory://lake/out")
    store = FileSetCommitStore(given.world.pool)
    await store.add("default.out", "memory://lake/out", "c", "m", JobEpoch(JOB, 1))
    run = await given.mark_lost(BashJob("true"), out)

    await given.fence(run)

    with pytest.raises(AttemptFencedError):
        await store.add("default.out", "memory://lake/out", "d", "m", JobEpoch(JOB, 1))
    assert await given.known(run) == "commits no more to default.out"


@pytest.mark.parametrize(
    "module", ["raise SystemExit(3)", "print('{')", "print('[1]')", "import os; os._exit(0)", "print('x' * 2_000_000)"]
)
async def test_a_program_whose_modules_are_in_the_way_says_what_they_said(
    given: Given, module: str, tmp_path: Path
) -> None:
    (tmp_path / "orjson.py").write_text(f"{module}\nraise SystemExit\n")
    out, _ = place("folder", tmp_path, {})
    run = await given.mark_lost(PythonJob("m:f", env={"PYTHONPATH": str(tmp_path)}), out)

    await given.fence(run)

    known = await given.known(run)
    assert known is not None
    assert known.startswith("may still commit to default.out (the process that was to fence it said: ")
    assert len(known) < 500


async def test_a_program_without_outputs_says_so_and_nothing_is_due(given: Given) -> None:
    run = await given.mark_lost(BashJob("true"))

    assert await given.known(run) == "may still commit: its program declares no outputs, so they cannot be fenced"
    assert await given.due() == []


async def test_a_successor_fences_by_itself(given: Given) -> None:
    world, now = given.world, given.world.clock.now()
    await world.define(WRITES)
    await world.satisfy(world.ready(WRITES, 1))
    await world.launcher.run_once()
    first, second = f"{JOB}.r1", f"{JOB}.r2"
    assert await world.run_store.claim(first, runner="h:1:1", log_path="/log", now=now)
    assert await world.run_store.mark_lost(SilentRun(first, 1, "h:1:1", now), "gone", now=now, attempts=2)
    assert await given.known(first) is None

    assert await world.run_store.claim(second, runner="h:1:1", log_path="/log", now=now)
    await world.run_store.finish(second, RunEnd(RunState.FAILED, "exit code 1", now, 1))

    assert await given.known(second) is not None, "it may have failed before it wrote"


async def test_attempts_that_ended_are_not_fenced(given: Given) -> None:
    world, now = given.world, given.world.clock.now()
    again = replace(WRITES, retry=Retry(2, frozenset({Failure.ERROR}), delay=MINUTE))
    await world.define(again)
    await world.satisfy(world.ready(again, 1))
    for attempt in (1, 2):
        await world.launcher.run_once()
        assert await world.run_store.claim(f"{JOB}.r{attempt}", runner="h:1:1", log_path="/log", now=now)
        await world.run_store.finish(f"{JOB}.r{attempt}", RunEnd(RunState.FAILED, "exit code 1", now, 1))
        world.clock.advance(10 * MINUTE)

    assert await given.known(f"{JOB}.r2") is None


async def test_a_run_without_a_process_commits_nothing(given: Given) -> None:
    run = await given.mark_lost(PublishJob(EventName("default", "e")))

    assert await given.known(run) is None


async def test_a_driver_that_the_cluster_did_not_end_is_fenced(given: Given, tmp_path: Path) -> None:
    world, now = given.world, given.world.clock.now()
    output, write = place("folder", tmp_path, {})
    await world.define(WRITES)
    await world.put_program(Program(PROGRAM, BashJob("true"), {}, (output,)))
    await world.satisfy(world.ready(WRITES, 1))
    await world.launcher.run_once()
    run = f"{JOB}.r1"
    assert await world.run_store.claim(run, runner="h:1:1", log_path="/log", now=now)
    killed = RunEnd(RunState.KILLED, "the cluster did not answer; it may still run", now, -9)
    await world.run_store.finish(run, replace(killed, may_live=True))

    await given.fence(run)

    with pytest.raises(AttemptFencedError):
        write(process_environ(JOB))


async def test_a_launcher_starts_the_process_for_a_run_whose_runner_was_killed(world: World, tmp_path: Path) -> None:
    output, write = place("folder", tmp_path, {})
    here = RealPlace(world, tmp_path / "data")
    timeouts = RunTimeouts(silence=timedelta(seconds=1), attempts=1)
    here.run_monitor._timeouts = timeouts
    await world.define(WRITES)
    await world.put_program(Program(PROGRAM, BashJob("exec sleep 600"), {}, (output,)))
    await world.satisfy(world.ready(WRITES, 1))
    await here.launcher.run_once()
    run = f"{JOB}.r1"
    await here.reaches("RUNNING", run=run)

    (await here.runner(run)).kill()

    async def is_lost() -> bool:
        return bool(await here.run_monitor.check_runs())

    async def is_fenced() -> bool:
        await here.run_monitor.check_runs()
        return (await world.runs.get(run)).fence == "commits no more to default.out"

    await eventually(is_lost)
    await eventually(is_fenced)
    with pytest.raises(AttemptFencedError):
        write(process_environ(JOB))

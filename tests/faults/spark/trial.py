"""Spark programs whose launcher, runners and drivers are killed at random moments around the submission.

`fake`: a counting `spark-submit` and ResourceManager, client and cluster mode in turns. `standalone`: a real master and
worker, likewise. `connect`: a real Spark Connect server of this machine. `yarn`: cluster mode on a real YARN of one
node, which the first run downloads. Each kill meets a job that was just given to the launcher; its schedule repeats
failed runs.

With `--outage SECONDS` nothing is killed: PostgreSQL is away for so long while a run of each mode executes and ends.
"""

from __future__ import annotations

# ruff: noqa: ASYNC110  (processes of their own give no event to wait for)
import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import asyncpg
import psutil

from streamsched.define.retries import retry
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.ports.runner import RunnerId
from streamsched.spark.backends.connect.server import connect_folder
from streamsched.store.connections import open_pool
from streamsched.store.server.embedded_server import start_server, stop_server
from tests.faults.judges.drivers import Killed, StoredRun, judge_drivers
from tests.faults.load.stored import GO, store_app, take_ready
from tests.faults.processes.command import environ, module, start
from tests.faults.sites.postgres_server import create_database
from tests.faults.spark.fake_spark import FakeSpark
from tests.faults.spark.processes import LAUNCHER, requested
from tests.support.judgement import Judgement
from tests.support.spark_cluster import SparkCluster, spark_cluster
from tests.support.yarn_cluster import YarnCluster, yarn_cluster
from tests.trial import Asked, Counts, Site, Trial, settle

#: What a real driver does: notes as `fake_spark` describes them, and a task on an executor in between.
_PROGRAM: Final = """
import fcntl, os, sys, time
from pyspark.sql import SparkSession

folder, run = sys.argv[1], os.environ["STREAMSCHED_RUN_ID"]

def note(*words):
    file = os.open(folder + "/notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (" ".join(words) + "\\n").encode())
    os.close(file)

lock = os.open(folder + "/locks/" + run.rpartition(".")[0], os.O_RDWR | os.O_CREAT)
note("began", run, str(os.getpid()))
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    note("overlap", run)
spark = SparkSession.builder.getOrCreate()
assert spark.range(10).count() == 10
while os.path.exists(folder + "/held"):
    time.sleep(0.1)
time.sleep(float(open(folder + "/seconds").read()))
note("done", run)
"""
_UNENDED: Final = (
    "SELECT count(*) FROM jobs j WHERE NOT EXISTS (SELECT FROM runs WHERE job = j.id AND state = 'COMPLETED')"
)
_RUNNING: Final = "SELECT count(*) FROM runs WHERE state = 'RUNNING'"
_LIVE: Final = "SELECT count(*) FROM runs WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')"


@dataclass(frozen=True, slots=True)
class Spark:
    """Where the drivers of a trial run.

    Attributes:
        folder: has what they noted, and the locks of their jobs.
        environ: variables with which runners find it.
        modes: master and settings of the programs.
        ends: what the cluster says about the drivers of each run.
    """

    folder: Path
    environ: Mapping[str, str]
    modes: Mapping[DeployMode, tuple[str | None, Mapping[str, str]]]
    ends: Callable[[], Mapping[str, Sequence[str]]]


def fake_drivers(fake: FakeSpark) -> Spark:
    """See `fake_spark`."""
    modes = {DeployMode.CLIENT: ("local[1]", {}), DeployMode.CLUSTER: ("yarn", {})}
    return Spark(fake.folder, fake.environ, modes, fake.ends)


def real_drivers(folder: Path, seconds: float, cluster: SparkCluster | None) -> Spark:
    """`_PROGRAM` on a standalone cluster, or without one on Spark Connect."""
    (folder / "locks").mkdir(parents=True)
    (folder / "seconds").write_text(str(seconds))
    if cluster is None:
        environ = {"STREAMSCHED_SPARK_MASTER": "local[2]"}
        return Spark(folder, environ, {DeployMode.CONNECT: (None, {})}, dict)

    def ends() -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for run, state in cluster.runs_of_drivers():
            found.setdefault(run, []).append("SUCCEEDED" if state == "FINISHED" else state)
        return found

    there = (cluster.master, cluster.conf)
    return Spark(folder, {}, {DeployMode.CLUSTER: there, DeployMode.CLIENT: there}, ends)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--outage", type=float, default=0.0, help="seconds without PostgreSQL, instead of kills")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    """A kill comes within some seconds after a job was given; a program takes some seconds, and longer in an outage."""
    longest_s, seconds = (1.5, 0.8) if asked.variant == "fake" else (20.0, 1.0)
    with sparks(asked.variant, asked.folder, asked.own.outage * 0.7 or seconds) as spark:
        yield Site(lambda _: SparkTrial(asked, spark, longest_s))


class SparkTrial(Trial):
    """A database, a launcher, and programs of each mode."""

    patience_s = 900.0

    def __init__(self, asked: Asked, spark: Spark, longest_s: float) -> None:
        self.rng, self._asked, self._longest_s = random.Random(asked.seed), asked, longest_s
        self.spark = spark
        self._kills = self._runs = 0
        self._folder = asked.folder
        self._data, self._socket, self._postgres = (self._folder / each for each in ("data", "processes.sock", "pg"))
        self._given: dict[DeployMode, int] = dict.fromkeys(spark.modes, 0)
        self._killed_runners: set[int] = set()
        self._killed_drivers: set[str] = set()
        self._launcher = 0

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        """Everything runs, and no job is there."""
        url = create_database(start_server(self._postgres).url)
        self._pool = await open_pool(url)
        self._data.mkdir()
        settings = environ(database_url=url, data_dir=self._data, heartbeat="500ms", log_level="info")
        self._warm = start(
            module("tests.faults.spark.processes", str(self._socket)),
            self._folder / "processes.log",
            {**settings, **self.spark.environ},
        )
        try:
            await self._furnish()
            yield
        finally:
            await self._end()

    async def _furnish(self) -> None:
        (self._folder / "program.py").write_text(_PROGRAM)
        programs = [self._program(mode) for mode in self.spark.modes]
        await store_app(self._pool, datetime.now(UTC), programs, [self._schedule(mode) for mode in self.spark.modes])
        async with asyncio.timeout(60):
            while not self._socket.exists():
                await asyncio.sleep(0.05)
        self._launcher = requested(self._socket, LAUNCHER)

    def _program(self, mode: DeployMode) -> Program:
        master, conf = self.spark.modes[mode]
        main, arguments = str(self._folder / "program.py"), (str(self.spark.folder),)
        job = SparkJob(main, arguments, master, conf, deploy_mode=mode)
        return Program(ProgramRef("default", "app", mode), job)

    def _schedule(self, mode: DeployMode) -> Schedule:
        ref, again = ScheduleRef("default", "app", mode), retry(50, delay="1s", longest="2s")
        return Schedule(ref, ProgramRef("default", "app", mode), GO, overlap=Overlap.QUEUE, retry=again)

    async def give(self, mode: DeployMode) -> None:
        """The next job of the mode."""
        self._given[mode] += 1
        await take_ready(self._pool, self._schedule(mode), [self._given[mode]], datetime.now(UTC))

    async def faults(self) -> AsyncIterator[str]:
        """Kills, or the outage. Real drivers run one at a time: this machine has no room for more."""
        if self._asked.variant == "connect":  # the server starts once, before
            await self.give(DeployMode.CONNECT)
            await settle(self)
        if self._asked.own.outage:
            await self._outage(self._asked.own.outage)
            yield f"without PostgreSQL {self._asked.own.outage:g} s"
            return
        for _ in range(self._asked.n):
            yield await self._kill_one()
            if self._asked.variant != "fake":
                await settle(self)

    async def _kill_one(self) -> str:
        """A new job, and at a random moment soon the end of the launcher, a runner or a driver."""
        modes = list(self.spark.modes)
        await self.give(modes[self._kills % len(modes)])
        what = self.rng.choice(("launcher", "runner", "driver"))
        await asyncio.sleep(self.rng.uniform(0, self._longest_s))
        until = time.monotonic() + self._longest_s
        while not (self._kill_driver() if what == "driver" else self._kill_process(what)):
            await asyncio.sleep(0.02)
            if time.monotonic() > until:
                what = "launcher"
        self._kills += 1
        return what

    def _kill_process(self, what: str) -> bool:
        children = [each.pid for each in psutil.Process(self._warm.pid).children()]
        if what == "launcher":
            os.kill(self._launcher, signal.SIGKILL)
            self._launcher = requested(self._socket, LAUNCHER)
            return True
        runners = sorted(each for each in children if each != self._launcher)
        if not runners:
            return False
        pid = self.rng.choice(runners)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self._killed_runners.add(pid)
            return True
        return False

    def _kill_driver(self) -> bool:
        notes = self._notes()
        done = {each[1] for each in notes if each[0] == "done"} | self._killed_drivers
        living = [
            each for each in notes if each[0] == "began" and each[1] not in done and psutil.pid_exists(int(each[2]))
        ]
        if not living:
            return False
        _, run, pid = self.rng.choice(living)
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
            self._killed_drivers.add(run)
            return True
        return False

    def _notes(self) -> list[list[str]]:
        path = self.spark.folder / "notes"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    async def _outage(self, seconds: float) -> None:
        """A run of each mode executes; PostgreSQL is away while they do, and for a while after their end."""
        held = self.spark.folder / "held"
        held.touch()  # none ends before PostgreSQL is away, however slow the other is
        for mode in self.spark.modes:
            await self.give(mode)
        async with asyncio.timeout(900):
            while sum(each[0] == "began" for each in self._notes()) < len(self.spark.modes):
                await asyncio.sleep(0.1)
            while await self._pool.fetchval(_RUNNING) < len(self.spark.modes):
                await asyncio.sleep(0.1)
        await self._pool.close()
        stop_server(self._postgres)
        held.unlink()
        await asyncio.sleep(seconds)
        self._pool = await open_pool(start_server(self._postgres).url.replace("/postgres?", "/faults?"))

    async def judge(self) -> Judgement:
        """Nothing, before all has ended."""
        open_ = await self._pool.fetchval(_UNENDED) + await self._pool.fetchval(_LIVE)
        open_ += str(self.spark.ends()).count("UNDEFINED")
        if open_:
            waiting = Judgement()
            waiting.miss(f"the ends of {open_} jobs, runs and drivers", open_)
            return waiting
        rows = await self._pool.fetch("SELECT id, job, state, runner, executable ->> 'deploy_mode' AS mode FROM runs")
        self._runs = len(rows)
        runs = [
            StoredRun(row["id"], row["job"], row["state"], row["mode"] == DeployMode.CLUSTER, _pid(row["runner"]))
            for row in rows
        ]
        jobs = [f"default.app.{mode}.1.{n}" for mode, given in self._given.items() for n in range(1, given + 1)]
        killed = Killed(self._killed_runners, self._killed_drivers)
        return judge_drivers(jobs, runs, self._notes(), self.spark.ends(), killed)

    def counts(self) -> Counts:
        return {"kills": self._kills, "runs": self._runs}

    async def _end(self) -> None:
        for process in (*psutil.Process(self._warm.pid).children(recursive=True), self._warm):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._warm.wait()
        with suppress(asyncpg.PostgresError, OSError):
            await self._pool.close()
        stop_server(self._postgres)
        folder = str(connect_folder(self._data))
        for process in psutil.process_iter(["cmdline"]):
            if folder in (process.info["cmdline"] or ()):  # the keeper of a server, also of one that starts
                process.terminate()


def _pid(runner: str | None) -> int:
    return 0 if runner is None else RunnerId.parse(runner).pid


def yarn_drivers(folder: Path, seconds: float, cluster: YarnCluster) -> Spark:
    """`_PROGRAM` on YARN."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (folder / "locks").mkdir(parents=True)
    (folder / "seconds").write_text(str(seconds))

    def ends() -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for run, state in cluster.runs_of_applications():
            found.setdefault(run, []).append(state)
        return found

    there = ("yarn", cluster.conf(Path(spec.origin).parent, sys.executable))
    return Spark(folder, {"HADOOP_CONF_DIR": str(cluster.conf_dir)}, {DeployMode.CLUSTER: there}, ends)


@contextmanager
def sparks(kind: str, folder: Path, seconds: float) -> Iterator[Spark]:
    """What the drivers of the kind run on, until the end of the block."""
    if kind == "fake":
        fake = FakeSpark(folder / "spark", seconds)
        try:
            yield fake_drivers(fake)
        finally:
            fake.close()
    elif kind == "standalone":
        (folder / "cluster").mkdir()
        with spark_cluster(folder / "cluster") as cluster:
            yield real_drivers(folder / "spark", seconds, cluster)
    elif kind == "yarn":
        (folder / "cluster").mkdir()
        with yarn_cluster(folder / "cluster", Path(tempfile.gettempdir()) / "mini-yarn-jars") as yarn:
            yield yarn_drivers(folder / "spark", seconds, yarn)
    else:
        yield real_drivers(folder / "spark", seconds, None)

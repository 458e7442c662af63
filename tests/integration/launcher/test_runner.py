"""Runner processes, really started and really killed: every run ends where people can see it, and nothing is left."""

from __future__ import annotations

# ruff: noqa: ASYNC110, ASYNC220, ASYNC221, ASYNC240  (real processes and small files, and no other task on this loop)
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.domain.schedules.schedule import BashJob, Executable, SparkJob
from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.ports.clock import SystemClock
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import StopRequest
from streamsched.spark.guard import members
from streamsched.spark.processes import LocalRunners
from streamsched.store.connections import open_pool
from streamsched.store.runs.run_queries import RunRecord
from streamsched.store.server.embedded_server import start_server, stop_server

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
RUN = "default.app.plain.1.1.r1"
ENDED = {"COMPLETED", "FAILED", "KILLED", "LOST"}


async def eventually(asked: Callable[[], Awaitable[Any]], *, seconds: float = 120.0) -> Any:
    """What `asked` answers as soon as it is true; processes of their own give no event to wait for."""
    async with asyncio.timeout(seconds):
        while not (answer := await asked()):
            await asyncio.sleep(0.05)
        return answer


class Place:
    """A launcher with real runner processes."""

    def __init__(self, world: World, data_dir: Path, **environ: str) -> None:
        self.world = world
        self.data_dir = data_dir
        self.environ = os.environ | {
            "STREAMSCHED_DATABASE_URL": world.dsn,
            "STREAMSCHED_DATA_DIR": str(data_dir),
            "STREAMSCHED_HEARTBEAT": "200ms",
            "STREAMSCHED_SPARK_MASTER": "local[1]",
            **environ,
        }
        self.runners = LocalRunners(data_dir, self.environ)
        patience = RunTimeouts(silence=timedelta(seconds=1))
        self.run_monitor = RunMonitor(world.run_store, self.runners, SystemClock(), patience)
        self.launcher = Launcher(world.decisions, self.run_monitor, world.notifier, SystemClock())

    async def launch(self, executable: Executable, **properties: str) -> None:
        await self.world.define(schedule("plain", properties=properties))
        await self.world.execute(executable)
        await self.world.satisfy(self.world.ready(PLAIN, 1))
        await self.launcher.run_once()

    async def run(self, run: str = RUN) -> RunRecord:
        return await self.world.runs.get(run)

    async def reaches(self, *states: str, run: str = RUN, within: float = 120.0) -> RunRecord:
        async def reached() -> RunRecord | None:
            try:
                record = await self.run(run)
            except UnavailableError:  # a connection from before a restart of the server
                return None
            return record if record.state in states else None

        try:
            return await eventually(reached, seconds=within)
        except TimeoutError:
            pytest.fail(f"{await self.run(run)}\n{(self.data_dir / 'logs' / f'{run}.runner.log').read_text()}")

    async def written(self, name: str) -> str:
        async def content() -> str:
            path = self.data_dir / name
            return path.read_text().strip() if path.exists() else ""

        return await eventually(content)

    async def runner(self, run: str = RUN) -> psutil.Process:
        return psutil.Process(RunnerId.parse((await self.run(run)).runner or "").pid)


@pytest.fixture
def place(world: World, tmp_path: Path) -> Place:
    return Place(world, tmp_path)


async def announced(world: World) -> list[str]:
    rows = await world.published("program-status")
    return [orjson.loads(value)["id"] for value in rows]


async def test_a_run_is_executed_logged_given_its_facts_and_announced(place: Place) -> None:
    await place.launch(
        BashJob(
            f'echo "hello $STREAMSCHED_ARG_A from $STREAMSCHED_RUN_ID";cp $STREAMSCHED_RUN_FILE {place.data_dir}/told'
        )
    )

    run = await place.reaches(*ENDED)

    assert (run.state, run.exit_code) == ("COMPLETED", 0)
    assert Path(run.log_path or "").read_text() == f"hello program from {RUN}\n"
    reported = orjson.loads((place.data_dir / "told").read_bytes())
    assert (reported["run"], reported["arguments"]["a"]) == (RUN, "program")
    assert reported["trigger"]["leaves"][0]["events"][0]["id"] == "1-0"
    assert await announced(place.world) == [f"{RUN}:RUNNING", f"{RUN}:COMPLETED"]
    assert (await place.world.jobs.get("default.app.plain.1.1")).state == "LAUNCHED"
    assert not list((place.data_dir / "runs").glob("*.exit"))


async def test_our_own_settings_are_kept_from_programs(place: Place) -> None:
    await place.launch(BashJob("env"))

    await place.reaches("COMPLETED")

    assert "DATABASE_URL" not in (place.data_dir / "logs" / f"{RUN}.log").read_text()


async def test_a_failed_run_says_how_and_its_last_words(place: Place) -> None:
    await place.launch(BashJob("echo working; echo 'ValueError: no such day' >&2; exit 3"))

    run = await place.reaches(*ENDED)

    assert (run.state, run.exit_code, run.reason) == ("FAILED", 3, "exit code 3: ValueError: no such day")


async def test_last_words_that_no_text_column_takes_are_reported_without_what_it_refuses(place: Place) -> None:
    await place.launch(BashJob(r"printf 'bad\0 \033[31mred'; exit 1"))

    assert (await place.reaches(*ENDED)).reason == "exit code 1: bad\ufffd \ufffd[31mred"


async def test_a_main_file_that_does_not_exist_is_named(place: Place) -> None:
    await place.launch(SparkJob("/nowhere/main.py"))

    run = await place.reaches(*ENDED)

    assert run.state == "FAILED"
    assert "/nowhere/main.py does not exist" in run.reason


async def test_an_argument_the_run_does_not_have_is_named(place: Place, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("")
    await place.launch(SparkJob(str(tmp_path / "main.py"), ("--day", "{day}")))

    assert "argument 'day'" in (await place.reaches("FAILED")).reason


async def test_without_java_a_spark_program_fails_with_what_is_needed(world: World, tmp_path: Path) -> None:
    place = Place(world, tmp_path, JAVA_HOME=str(tmp_path / "jdk"))
    (tmp_path / "main.py").write_text("")
    await place.launch(SparkJob(str(tmp_path / "main.py")))

    assert "Java 17 or newer is needed" in (await place.reaches("FAILED")).reason


async def test_a_second_runner_ends_quietly(place: Place) -> None:
    await place.launch(BashJob(f"echo x >> {place.data_dir}/ran; sleep 1"))
    await place.reaches("RUNNING")

    again = subprocess.run(
        [sys.executable, "-m", "streamsched.roles.runner", RUN], env=place.environ, check=False, capture_output=True
    )

    assert again.returncode == 0
    await place.reaches("COMPLETED")
    assert (place.data_dir / "ran").read_text() == "x\n"


async def leader(place: Place) -> int:
    return int(await place.written("pid"))


async def gone(place: Place, session: int) -> None:
    """No process of the run is left."""

    async def none_left() -> bool:
        return not members(session)

    await eventually(none_left, seconds=10)


async def test_a_run_that_is_asked_to_stop_ends_killed_with_all_its_children(place: Place) -> None:
    await place.launch(BashJob(f"(trap '' TERM; sleep 300) & set -m; sleep 300 & echo $$ > {place.data_dir}/pid; wait"))
    session = await leader(place)
    await place.reaches("RUNNING")

    await place.world.runs.stop(RUN, StopRequest("asked by a test"), now=SystemClock().now())

    run = await place.reaches(*ENDED)
    assert (run.state, run.reason) == ("KILLED", "asked by a test")
    await gone(place, session)
    assert (await announced(place.world))[-1] == f"{RUN}:KILLED"


async def test_a_runner_asked_to_end_kills_its_run_and_says_so(place: Place) -> None:
    await place.launch(BashJob(f"echo $$ > {place.data_dir}/pid; sleep 300"))
    session = await leader(place)
    await place.reaches("RUNNING")

    (await place.runner()).terminate()

    assert (await place.reaches(*ENDED)).reason == "its runner got SIGTERM"
    await gone(place, session)


async def test_a_killed_runner_takes_all_its_children_along_and_the_job_is_tried_again(place: Place) -> None:
    """Children that made process groups of their own or ignore signals included."""
    first = f"test -e {place.data_dir}/pid && exit 0; (trap '' TERM; sleep 300) & set -m; sleep 300 & "
    await place.launch(BashJob(f"{first} echo $$ > {place.data_dir}/pid; wait"))
    session = await leader(place)
    await place.reaches("RUNNING")

    (await place.runner()).kill()
    await gone(place, session)

    async def lost() -> bool:
        return bool(await place.run_monitor.check_runs())

    await eventually(lost)
    assert (await place.run()).state == "LOST"
    await place.launcher.run_once()
    assert (await place.reaches(*ENDED, run="default.app.plain.1.1.r2")).state == "COMPLETED"
    assert (await place.world.jobs.get("default.app.plain.1.1")).runs == (RUN, "default.app.plain.1.1.r2")


async def test_a_run_goes_on_when_its_launcher_is_killed(place: Place) -> None:
    await place.world.define(PLAIN)
    await place.world.execute(BashJob(f"echo $$ > {place.data_dir}/pid; sleep 1.5; echo done"))
    await place.world.satisfy(place.world.ready(PLAIN, 1))
    await place.world.launcher.run_once()  # admits, and starts nothing
    launcher = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import os, sys, time, pathlib; from streamsched.spark.processes import LocalRunners;"
            "LocalRunners(pathlib.Path(sys.argv[1]), os.environ).spawn(sys.argv[2]); time.sleep(60)",
            *(str(place.data_dir), RUN),
        ],
        env=place.environ,
        start_new_session=True,
    )
    await place.reaches("RUNNING")

    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()

    assert (await place.reaches(*ENDED)).state == "COMPLETED"


async def test_an_end_that_was_noted_but_not_reported_is_found_on_disk(place: Place) -> None:
    """The runner dies after its program ended and before PostgreSQL knew."""
    await place.launch(BashJob(f"echo $$ > {place.data_dir}/pid; sleep 300"))
    await leader(place)
    await place.reaches("RUNNING")
    (await place.runner()).kill()
    ended_at = SystemClock().now()
    note = {"state": "COMPLETED", "reason": "", "at": ended_at, "exit_code": 0, "log_tail": ""}
    (place.data_dir / "runs" / f"{RUN}.exit").write_bytes(orjson.dumps(note))

    async def found() -> bool:
        return bool(await place.run_monitor.check_runs())

    await eventually(found)
    run = await place.run()
    assert (run.state, run.ended_at) == ("COMPLETED", ended_at)


async def test_a_paused_runner_is_not_lost(place: Place) -> None:
    await place.launch(BashJob("sleep 2.5"))
    await place.reaches("RUNNING")
    runner = await place.runner()
    runner.suspend()
    try:

        async def silent() -> bool:
            return bool(await place.world.run_store.silent_runs(SystemClock().now() - timedelta(seconds=1), limit=1))

        await eventually(silent)
        assert await place.run_monitor.check_runs() == []
    finally:
        runner.resume()

    assert (await place.reaches(*ENDED)).state == "COMPLETED"


@asynccontextmanager
async def world_of_its_own(folder: Path):
    from streamsched_brokers.memory import open_broker

    from streamsched.log.topics import topic_specs
    from streamsched.store.server.migrate import migrate

    server = start_server(folder)
    await asyncio.to_thread(migrate, server.url)
    pool = await open_pool(server.url)
    broker = await open_broker("memory://")
    await broker.create_topics(topic_specs(4, timedelta(days=1)))
    world = World(server.url, pool, broker)
    try:
        yield world
    finally:
        await world.notifier.close()
        await pool.close()
        stop_server(folder)


async def test_a_run_that_ends_while_postgresql_is_away_is_stored_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    async with world_of_its_own(folder) as world:
        place = Place(world, tmp_path / "data")
        await place.launch(
            BashJob(f"echo $$ > {place.data_dir}/pid; while test ! -e {place.data_dir}/go; do sleep 0.1; done")
        )
        session = await leader(place)
        await place.reaches("RUNNING")

        stop_server(folder)
        (place.data_dir / "go").touch()
        await gone(place, session)
        await place.written(f"runs/{RUN}.exit")
        start_server(folder)

        assert (await place.reaches(*ENDED)).state == "COMPLETED"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
async def test_a_pyspark_program_runs_on_what_it_is_given(place: Place, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(
        "import json, os, sys\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "told = json.load(open(os.environ['STREAMSCHED_RUN_FILE']))\n"
        "count = spark.range(int(sys.argv[1])).filter('id % 2 = 0').count()\n"
        "print('COUNT', count, spark.sparkContext.appName, told['trigger']['job'])\n"
    )
    await place.launch(SparkJob(str(main), ("{rows}",)), rows="100")

    run = await place.reaches(*ENDED, within=500.0)  # a busy machine takes minutes to start Spark

    assert run.state == "COMPLETED", run.reason
    assert f"COUNT 50 {RUN} default.app.plain.1.1" in Path(run.log_path or "").read_text()


@pytest.mark.long
@pytest.mark.spark
async def test_a_killed_runner_takes_java_and_python_along(place: Place, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(
        "import os, time\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "spark.sparkContext.parallelize(range(2), 2).map(lambda n: n).collect()\n"
        f"open('{tmp_path}/pid', 'w').write(str(os.getsid(0)))\n"
        "time.sleep(300)\n"
    )
    await place.launch(SparkJob(str(main)))
    session = await leader(place)
    names = {psutil.Process(pid).name() for pid in members(session)}
    assert "java" in names
    assert any(name.startswith("python") for name in names)

    (await place.runner()).kill()

    await gone(place, session)

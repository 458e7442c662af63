"""Runs on a real Spark Connect server, which the first run starts and the others share."""

from __future__ import annotations

# ruff: noqa: ASYNC240  (small files, and no other task on this loop)
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runs import StopRequest
from streamsched.spark.backends.connect.server import ConnectServer, connect_folder
from streamsched.spark.processes import LocalRunners
from streamsched.store.runs.run_queries import RunRecord
from tests.support.services import need_java

from .conftest import World, schedule
from .test_runner import ENDED, Place, eventually

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(900)]

PLAIN = schedule("plain")
#: A server starts within minutes on a busy machine.
SLOW_S = 400.0
PROGRAM = """
import sys, time
import words
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.getOrCreate()
print("counted", spark.range(1000).count(), spark.conf.get("spark.sql.shuffle.partitions"), sys.argv[1:], flush=True)
if "a" in sys.argv:

    @udf
    def word(number):
        import words

        return words.WORD

    print("words", words.WORD, spark.range(1).select(word("id")).first()[0], flush=True)
if "wait" in sys.argv:
    open(sys.argv[2], "w").close()
    time.sleep(600)
"""


class ConnectPlace(Place):
    """A launcher whose runs are forked and use Spark Connect."""

    def __init__(self, world: World, data_dir: Path, **environ: str) -> None:
        super().__init__(world, data_dir, **environ)
        self.runners = LocalRunners(data_dir, self.environ, warm=True)
        self.run_monitor._runners = self.runners
        (data_dir / "program.py").write_text(PROGRAM)
        (data_dir / "modules").mkdir()
        (data_dir / "modules" / "words.py").write_text("WORD = 'there'\n")
        self.folder = connect_folder(data_dir)
        self.sequence = 0

    async def begin(self, *arguments: str, conf: dict[str, str] | None = None) -> str:
        self.sequence += 1
        await self.world.define(PLAIN)
        main = str(self.data_dir / "program.py")
        conf = {"spark.sql.shuffle.partitions": "3"} if conf is None else conf
        needs = SparkNeeds(py_files=(str(self.data_dir / "modules" / "words.py"),))
        await self.world.execute(SparkJob(main, arguments, None, conf, needs=needs, deploy_mode=DeployMode.CONNECT))
        await self.world.satisfy(self.world.ready(PLAIN, self.sequence))
        await self.launcher.run_once()
        return f"default.app.plain.1.{self.sequence}.r1"

    async def ended(self, run: str) -> RunRecord:
        async def record() -> RunRecord | None:
            found = await self.run(run)
            return found if found.state in ENDED else None

        return await eventually(record, seconds=SLOW_S)


@pytest.fixture
async def place(world: World, tmp_path: Path) -> AsyncIterator[ConnectPlace]:
    need_java()
    place = ConnectPlace(world, tmp_path)
    yield place
    keepers = [each for each in psutil.process_iter(["cmdline"]) if str(place.folder) in (each.info["cmdline"] or ())]
    for each in keepers:  # also one whose server has not started yet
        each.terminate()
    assert not psutil.wait_procs(keepers, timeout=60)[1]
    for _, process in place.runners._started:
        with suppress(OSError):
            process.wait(20)


async def test_runs_share_a_server_and_a_kill_ends_the_session_of_one(place: ConnectPlace) -> None:
    first = await place.ended(await place.begin("a", "--b"))
    log = Path(first.log_path or "").read_text()
    assert first.state == "COMPLETED", (first, log)
    assert "counted 1000 3 ['a', '--b']" in log
    assert "words there there" in log
    print(first.metrics)  # noqa: T201 - for the report of a failed test
    assert first.metrics is not None
    assert first.metrics.complete
    assert first.metrics.tasks_done == first.metrics.tasks == 2  # one of the count, one of the function
    server = ConnectServer.read(place.folder)
    assert server is not None

    how: list[str] = []
    while "warm" not in how:  # until the libraries of the first run have been imported
        run = await place.ended(await place.begin("again"))
        how.append(run.start or "")
        print(how[-1], run.ended_at and run.ended_at - run.created_at)  # noqa: T201 - for the report of a failed test
        assert run.state == "COMPLETED"
        assert run.metrics is not None
        assert run.metrics.tasks_done == 1, run.metrics  # its own, not those of the runs before
        assert len(how) < 20, how

    reached = place.data_dir / "reached"
    waits = await place.begin("wait", str(reached))

    async def waiting() -> bool:
        return reached.exists()

    await eventually(waiting, seconds=SLOW_S)
    await place.world.runs.stop(waits, StopRequest("asked by a test", at_once=True), now=place.world.clock.now())
    assert (await place.ended(waits)).state == "KILLED"

    async def released() -> bool:
        return not list((place.folder / "uses" / server.id).iterdir())

    await eventually(released)
    assert ConnectServer.read(place.folder) == server
    bad = await place.ended(await place.begin(conf={"spark.executor.memory": "1g"}))
    assert bad.state == "FAILED"
    assert "spark.executor.memory cannot be set" in bad.reason
    (place.data_dir / "program.py").write_text("import no_such_module\n")
    missing = await place.ended(await place.begin())
    assert missing.state == "FAILED"
    assert "ModuleNotFoundError: No module named 'no_such_module'" in missing.reason

"""Warm starts on real processes: a forked run is a process of its own as a cold one is, and no old code runs."""

from __future__ import annotations

import asyncio
import select
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.schedules.process_job import PythonJob
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import StopRequest
from streamsched.spark.guard import members
from streamsched.spark.processes import LocalRunners
from streamsched.store.runs.run_queries import RunRecord

from .conftest import World, schedule
from .test_runner import ENDED, Place, eventually

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
TASK = """
import decimal, os, sys, time
from pathlib import Path

HERE = Path(__file__).parent
AT_IMPORT = os.environ["STREAMSCHED_RUN_ID"]

def do(**arguments):
    print("run", AT_IMPORT, os.environ["STREAMSCHED_RUN_ID"], os.getpid() == os.getsid(0), os.getcwd())
"""


class WarmPlace(Place):
    """A launcher whose runs are forked, of one Python program in a folder."""

    def __init__(self, world: World, data_dir: Path) -> None:
        super().__init__(world, data_dir)
        self.code = data_dir / "code"
        self.code.mkdir()
        self.runners = LocalRunners(data_dir, self.environ, warm=True, places={ProcessKind.HOST: 200})
        self.run_monitor._runners = self.runners
        self.sequence = 0

    def write(self, text: str, name: str = "task") -> None:
        (self.code / f"{name}.py").write_text(textwrap.dedent(text))

    async def begin(self, function: str = "do", *, module: str = "task", count: int = 1) -> list[str]:
        """Launches runs; returns their ids."""
        await self.world.define(schedule("plain"))
        await self.world.execute(PythonJob(f"{module}:{function}", folder=str(self.code)))
        numbers = range(self.sequence + 1, self.sequence + count + 1)
        self.sequence += count
        await self.world.satisfy(*(self.world.ready(PLAIN, number) for number in numbers))
        await self.launcher.run_once()
        return [f"default.app.plain.1.{number}.r1" for number in numbers]

    async def one(self, function: str = "do", *, module: str = "task") -> RunRecord:
        """A run that has ended."""
        (run,) = await self.begin(function, module=module)
        return await self.reaches(*ENDED, run=run)

    async def warm_up(self, function: str = "do", *, module: str = "task") -> None:
        """Runs until one was warm."""
        async with asyncio.timeout(120):
            while (await self.one(function, module=module)).start != "warm":
                pass

    async def session(self, run: str) -> int:
        """The session of the run's processes, which the program writes."""
        return int(await self.written(f"code/{run}.pid"))

    def log(self, run: str) -> str:
        return (self.data_dir / "logs" / f"{run}.log").read_text()


@pytest.fixture
async def warm(world: World, tmp_path: Path) -> AsyncIterator[WarmPlace]:
    place = WarmPlace(world, tmp_path)
    place.write(TASK)
    yield place
    assert place.runners._fork_server is not None
    place.runners._fork_server.close()


SLEEPS = """
import decimal, os, time
from pathlib import Path

def do():
    path = Path(__file__).parent / (os.environ["STREAMSCHED_RUN_ID"] + ".pid")
    path.with_suffix(".tmp").write_text(str(os.getpid()))
    path.with_suffix(".tmp").rename(path)
    while not (path.parent / "go").exists():
        time.sleep(0.02)
    print("went on")
"""


async def sleeping(warm: WarmPlace, count: int = 1) -> list[str]:
    """Warm runs that wait for the file `go`."""
    warm.write(SLEEPS)
    (warm.code / "go").touch()
    await warm.warm_up()
    (warm.code / "go").unlink()
    runs = await warm.begin(count=count)
    for run in runs:
        await warm.session(run)
        assert (await warm.reaches("RUNNING", run=run)).start == "warm"
    return runs


def zygotes(server: psutil.Process) -> list[psutil.Process]:
    """The zygotes of a fork server. A child that has ended has no command line: a zombie is none of them."""
    found = []
    for child in server.children():
        with suppress(psutil.NoSuchProcess):  # a zombie too
            if "zygote" in " ".join(child.cmdline()):
                found.append(child)
    return found


async def gone(session: int) -> None:
    async def ended() -> bool:
        return not members(session)

    await eventually(ended, seconds=30)


async def test_a_warm_run_is_a_process_of_its_own_with_its_own_environment(warm: WarmPlace) -> None:
    first = await warm.one()
    await warm.warm_up()
    last = await warm.one()

    assert (first.start or "").startswith("cold: ")
    assert (last.state, last.exit_code, last.start) == ("COMPLETED", 0, "warm")
    assert warm.log(last.id) == f"run {last.id} {last.id} True {Path.cwd()}\n"


async def test_exit_codes_signals_exceptions_and_children_are_those_of_a_cold_run(warm: WarmPlace) -> None:
    warm.write(
        TASK
        + "\n".join(
            (
                "def leave(): os._exit(7)",
                "def exits(): sys.exit(9)",
                "def fails(): raise ValueError('no such day')",
                "def dies(): os.kill(os.getpid(), 9)",
                "def parts(): os.system('sleep 300 &'); Path(HERE / 'sid').write_text(str(os.getsid(0)))",
            )
        )
    )
    await warm.warm_up()
    found = {}
    for function in ("leave", "exits", "fails", "dies"):
        await warm.warm_up()
        run = await warm.one(function)
        found[function] = (run.state, run.exit_code, run.reason)

    assert found == {
        "leave": ("FAILED", 7, "exit code 7"),
        "exits": ("FAILED", 9, "exit code 9"),
        "fails": ("FAILED", 1, "exit code 1: ValueError: no such day"),
        "dies": ("FAILED", -9, "killed by signal 9"),
    }
    assert (await warm.one("parts")).state == "COMPLETED"
    await gone(int((warm.code / "sid").read_text()))


async def test_changed_code_runs_at_once_and_cold(warm: WarmPlace) -> None:
    warm.write("import decimal, part\ndef do(): print(part.WORD)\n")
    warm.write("WORD = 'one'\n", "part")
    await warm.warm_up()

    warm.write("WORD = 'three'\n", "part")
    changed = await warm.one()
    await warm.warm_up()
    last = await warm.one()

    assert (changed.start or "").endswith("part.py has changed")
    assert (warm.log(changed.id), warm.log(last.id)) == ("three\n", "three\n")


async def test_a_warm_run_is_killed_with_all_its_processes(warm: WarmPlace) -> None:
    (run,) = await sleeping(warm)
    session = await warm.session(run)

    await warm.world.runs.stop(run, StopRequest("by hand"), now=warm.world.clock.now())
    ended = await warm.reaches(*ENDED, run=run)

    assert (ended.state, ended.reason, ended.exit_code) == ("KILLED", "by hand", -15)
    await gone(session)


async def test_a_fork_server_that_was_started_before_forks_the_first_run(warm: WarmPlace) -> None:
    warm.runners.start_fork_server()
    server = warm.runners._fork_server
    assert server is not None
    assert server._socket is not None
    readable, _, _ = await asyncio.to_thread(select.select, [server._socket], [], [], 60)
    assert readable, "the fork server does not get ready"

    start = (await warm.one()).start or ""

    assert start.startswith("cold: ")
    assert "fork server" not in start


async def test_runs_go_on_without_fork_server_and_zygote(warm: WarmPlace) -> None:
    runs = await sleeping(warm, 3)
    server = warm.runners._fork_server
    assert server is not None
    assert server.pid is not None
    for each in (psutil.Process(server.pid), *zygotes(psutil.Process(server.pid))):
        each.kill()
    cold = await warm.begin()
    (warm.code / "go").touch()

    assert [(await warm.reaches(*ENDED, run=run)).state for run in (*runs, *cold)] == ["COMPLETED"] * 4
    assert [warm.log(run) for run in runs] == ["went on\n"] * 3


@pytest.mark.parametrize("killed", ["runner", "keeper"])
async def test_nothing_is_left_of_a_run_whose_runner_or_keeper_is_killed(warm: WarmPlace, killed: str) -> None:
    (run,) = await sleeping(warm)
    session = await warm.session(run)
    runner = psutil.Process(RunnerId.parse((await warm.run(run)).runner or "").pid)

    (runner if killed == "runner" else psutil.Process(session).parent()).kill()  # type: ignore[union-attr]

    await gone(session)
    if killed == "keeper":
        ended = await warm.reaches(*ENDED, run=run)
        assert (ended.state, ended.exit_code) == ("FAILED", -9)


async def test_runs_outlive_their_launcher_and_its_fork_server_does_not(warm: WarmPlace) -> None:
    await warm.warm_up()
    launcher = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LAUNCHER, str(warm.data_dir)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=warm.environ,
    )
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    warm.write(SLEEPS)
    spawn, warm.runners.spawn = warm.runners.spawn, lambda run, kind: None  # type: ignore[method-assign]
    runs = await warm.begin(count=2)
    server = 0
    for run in runs:
        launcher.stdin.write(f"{run}\n".encode())
        server = int(await launcher.stdout.readline())
        await warm.session(run)
    assert psutil.pid_exists(server)

    launcher.send_signal(signal.SIGKILL)
    await launcher.wait()
    (warm.code / "go").touch()

    assert [(await warm.reaches(*ENDED, run=run)).state for run in runs] == ["COMPLETED"] * 2

    async def no_server() -> bool:
        return not psutil.pid_exists(server) or psutil.Process(server).status() == psutil.STATUS_ZOMBIE

    await eventually(no_server, seconds=30)
    warm.runners.spawn = spawn  # type: ignore[method-assign]


#: Forks a runner for each line, and prints the process id of its fork server.
LAUNCHER = """
import os, pathlib, sys, time
from streamsched.spark.processes import LocalRunners

runners = LocalRunners(pathlib.Path(sys.argv[1]), os.environ, warm=True)
for line in sys.stdin:
    while True:
        runners.spawn(line.strip())
        if runners._forked:
            break
        time.sleep(0.2)
    runners._forked.clear()
    print(runners._fork_server.pid, flush=True)
"""


@pytest.mark.long
async def test_a_hundred_runs_at_a_time(warm: WarmPlace) -> None:
    """They share a hundred connections of PostgreSQL, so some wait for one."""
    await warm.warm_up()
    runs = await warm.begin(count=100)
    ended = [await warm.reaches(*ENDED, run=run) for run in runs]

    assert {(run.state, run.exit_code) for run in ended} == {("COMPLETED", 0)}
    assert [warm.log(run) for run in runs] == [f"run {run} {run} True {Path.cwd()}\n" for run in runs]
    assert sum(run.start == "warm" for run in ended) > 50


async def test_imports_that_end_or_hang_concern_their_own_run_only(warm: WarmPlace) -> None:
    await warm.warm_up()
    warm.write("import os\nos._exit(5)\n", "ends")
    warm.write("while True: pass\n", "hangs")
    (hanging,) = await warm.begin(module="hangs")
    await warm.reaches("RUNNING", run=hanging)

    ended = await warm.one(module="ends")
    neighbour = await warm.one()
    await warm.world.runs.stop(hanging, StopRequest("by hand", at_once=True), now=warm.world.clock.now())

    assert (ended.state, ended.exit_code) == ("FAILED", 5)
    assert (neighbour.state, neighbour.start) == ("COMPLETED", "warm")
    assert (await warm.reaches(*ENDED, run=hanging)).state == "KILLED"


async def test_code_that_prepares_its_libraries_stays_cold_and_says_why(warm: WarmPlace) -> None:
    warm.write("import os\nos.environ['LEVEL'] = '3'\nimport decimal\ndef do(): pass\n")
    async with asyncio.timeout(60):
        while "LEVEL" not in ((run := await warm.one()).start or ""):
            pass

    assert (run.state, run.start) == ("COMPLETED", "cold: its code sets LEVEL in the environment")

"""Whatever is killed, the next start goes on where it was; nothing runs twice."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from streamsched.store.server.embedded_server import stop_server
from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

TWO, THEN = "default.demo.two.1.{}.r1", "default.demo.then.1.{}.r1"


def postmaster(dev: DevProcess) -> psutil.Process:
    return psutil.Process(int((dev.state / "postgres" / "postmaster.pid").read_text().splitlines()[0]))


def both(*numbers: int) -> list[str]:
    return [name.format(number) for number in numbers for name in (TWO, THEN)]


@pytest.fixture
def half(dev: DevProcess) -> DevProcess:
    """A scheduler that was killed with one of two inputs complete, its PostgreSQL still running."""
    dev.start()
    assert dev.run("deploy", "app.py").code == 0
    assert dev.run("event", "emit", "partitions", "flights", "day=1", "day=2").code == 0
    dev.stop(signal.SIGKILL)
    return dev


@pytest.mark.nightly
def test_killed_with_its_postgres_left_running(half: DevProcess) -> None:
    assert postmaster(half).is_running()
    assert "it continues with the stored state" in half.start()
    half.run("event", "emit", "partitions", "weather", "day=1")
    half.until(lambda: half.completed(*both(1)))


@pytest.mark.nightly
def test_killed_together_with_its_postgres(half: DevProcess) -> None:
    postmaster(half).kill()
    half.start()
    half.run("event", "emit", "partitions", "weather", "day=1")
    half.until(lambda: half.completed(*both(1)))


def test_ctrl_c_stops_all_of_it_and_a_restart_goes_on(half: DevProcess) -> None:
    half.start()
    assert half.stop(signal.SIGINT) == 0
    assert "streamsched is stopped; no run is active" in half.said_at_end
    assert not (half.state / "dev.json").exists()
    assert sorted(path.name for path in half.folder.iterdir()) == [".streamsched", "app.py", "stderr"]
    assert not (half.state / "postgres" / "postmaster.pid").exists()
    half.start()
    half.run("event", "emit", "partitions", "weather", "day=1")
    half.until(lambda: half.completed(*both(1)))


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
def test_a_run_that_outlives_the_scheduler_is_found_again(dev: DevProcess, number: signal.Signals) -> None:
    (dev.folder / "app.py").write_text(
        "from streamsched import App, event, program\n"
        "app = App('slow')\n"
        "wait = app.bash('wait', 'while [ ! -e go ]; do sleep 0.1; done; echo done')\n"
        "app.schedule('on-call', wait, when=event('call'))\n"
        "app.schedule('next', app.bash('next', 'true'), when=program(wait, 'succeeded'))\n".replace(
            "-e go", f"-e {dev.folder}/go"
        )
    )
    dev.start()
    assert dev.run("deploy", "app.py").code == 0
    dev.run("event", "emit", "custom", "call")
    dev.until(lambda: [each for each in dev.run("run", "list", "-o", "json").json if each["state"] == "RUNNING"])
    dev.stop(number)
    if number is signal.SIGINT:
        assert "1 run continues without it" in dev.said_at_end
        assert "default.slow.on-call.1.1.r1 is RUNNING" in dev.said_at_end
    dev.start()
    Path(dev.folder / "go").touch()
    dev.until(lambda: dev.completed("default.slow.on-call.1.1.r1", "default.slow.next.1.1.r1"))


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(dev: DevProcess):
    yield
    dev.close()
    stop_server(dev.state / "postgres")

"""A pause that keeps and ends by itself, while everything is killed in the middle of it: it ends in time, once, and
nothing of what came before and during it is lost or doubled.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from streamsched.store.server.embedded_server import stop_server
from tests.support.dev_process import DevProcess

APP = """
from streamsched import App, partitions

app = App("demo")
app.schedule("three", app.bash("run", "true"), when=partitions("flights", 3))
"""
JOB = "default.demo.three.3.1"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    (tmp_path / "app.py").write_text(APP)
    dev = DevProcess(tmp_path)
    yield dev
    dev.close()
    stop_server(dev.state / "postgres")


def kill(dev: DevProcess) -> None:
    """The scheduler and its PostgreSQL at once."""
    postmaster = psutil.Process(int((dev.state / "postgres" / "postmaster.pid").read_text().splitlines()[0]))
    dev.stop(signal.SIGKILL)
    postmaster.kill()
    postmaster.wait(10)


@pytest.mark.postgres
@pytest.mark.torture
@pytest.mark.timeout(600)
def test_killed_while_paused(dev: DevProcess) -> None:
    dev.start()
    assert dev.run("deploy", "app.py").code == 0
    assert dev.run("event", "emit", "partitions", "flights", "day=1").code == 0
    assert dev.run("schedule", "pause", "demo.three", "--keep", "--until", "12s").code == 0
    assert dev.run("event", "emit", "partitions", "flights", "day=2").code == 0
    kill(dev)

    dev.start()
    assert dev.run("event", "emit", "partitions", "flights", "day=3").code == 0
    kill(dev)
    dev.start()
    dev.until(lambda: dev.completed(f"{JOB}.r1"))

    (job,) = dev.run("job", "list", "-o", "json").json
    assert job["id"] == JOB, "of the generation after the pause's, and no other"
    found = dev.run("schedule", "show", "demo.three", "-o", "json").json
    assert (found["enabled"], found["pause"], found["generation"]) == (True, None, 3)
    why = dev.run("job", "why", JOB, "-o", "json").json
    assert why["satisfiedBy"] == ["partitions:default.flights:3:distinct: 3 from 3 events"]

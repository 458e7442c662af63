"""The same parts spread over processes: worker, launcher and API on one database, and on one log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from compose.ports import free_port
from tests.support.dev_process import DevProcess

from .conftest import folder_with_app

pytestmark = pytest.mark.postgres

ROLE = (sys.executable, "-c", "from streamsched.cli.main import main; main()")


@pytest.fixture
def environ(empty_database: str, tmp_path: Path) -> dict[str, str]:
    port = free_port()
    return {
        "STREAMSCHED_DATABASE_URL": empty_database,
        "STREAMSCHED_API_PORT": str(port),
        "STREAMSCHED_API_ACCESS": "open",
        "STREAMSCHED_DATA_DIR": str(tmp_path / "data"),
        "STREAMSCHED_URL": f"http://127.0.0.1:{port}",
    }


@pytest.fixture
def folder(tmp_path: Path) -> DevProcess:
    return folder_with_app(tmp_path)


def role(name: str, folder: DevProcess, environ: dict[str, str], *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A role as a process; reported to end, it ends by itself and says so by its exit code."""
    with (folder.folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            (*ROLE, name, *options),
            cwd=folder.folder,
            env=folder.environ(**environ),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.terminate()
            code = process.wait(timeout=30)
    assert code == 0, (folder.folder / f"{name}.log").read_text()[-2000:]


async def test_three_processes_do_what_one_does(folder: DevProcess, environ: dict[str, str]) -> None:
    three_processes(folder, environ)


@pytest.mark.nightly
@pytest.mark.kafka
async def test_three_processes_on_kafka(folder: DevProcess, environ: dict[str, str], kafka_log: str) -> None:
    three_processes(folder, environ, "--broker", kafka_log)


@pytest.mark.nightly
@pytest.mark.kafka
def test_dev_on_kafka(folder: DevProcess, kafka_log: str) -> None:
    folder.start("--broker", kafka_log)
    try:
        assert folder.run("deploy", "app.py").code == 0
        runs_follow_events(folder)
    finally:
        folder.close()


def three_processes(folder: DevProcess, environ: dict[str, Any], *options: str) -> None:
    assert folder.run("migrate", **environ).code == 0
    with ExitStack() as held:
        for name in ("worker", "launcher", "api"):
            next(started := role(name, folder, environ, *options))
            held.callback(next, started, None)
        folder.state.mkdir()
        (folder.state / "dev.log").write_text("")
        folder.until(lambda: folder.run("schedule", "list", **environ).code == 0)
        assert folder.run("deploy", "app.py", **environ).code == 0
        runs_follow_events(folder, **environ)


def runs_follow_events(folder: DevProcess, **environ: Any) -> None:
    assert folder.run("event", "emit", "partitions", "flights", "a", "b", **environ).code == 0
    assert folder.run("event", "emit", "partitions", "weather", "a", **environ).code == 0
    folder.until(lambda: folder.completed("default.demo.two.1.1.r1", "default.demo.then.1.1.r1", **environ))


def test_a_role_without_a_database_says_which_variable_is_missing(folder: DevProcess) -> None:
    said = folder.run("worker")
    assert said.code == 2
    assert "STREAMSCHED_DATABASE_URL is not set" in said.err

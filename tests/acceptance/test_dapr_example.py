"""`examples/dapr_jobs` on `streamsched dev`, with the commands for jobs beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.ports import free_ports
from tests.support.dev_process import DevProcess
from tests.support.services import need_module

EXAMPLE = Path(__file__).parents[2] / "examples" / "dapr_jobs" / "app.py"
PORTS = dict(zip(("app", "http", "grpc"), free_ports(3), strict=True))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    need_module("dapr", "dapr")
    dev = DevProcess(tmp_path_factory.mktemp("dapr"))
    dev.start(
        STREAMSCHED_DAPR_APP_ID="orders",
        STREAMSCHED_DAPR_APP=f"grpc://127.0.0.1:{PORTS['app']}",
        STREAMSCHED_DAPR_HTTP_PORT=str(PORTS["http"]),
        STREAMSCHED_DAPR_GRPC_PORT=str(PORTS["grpc"]),
    )
    yield dev
    dev.close()


def test_the_example_gets_its_jobs(dev: DevProcess) -> None:
    ports = {"APP_PORT": PORTS["app"], "DAPR_HTTP_PORT": PORTS["http"], "DAPR_GRPC_PORT": PORTS["grpc"]}
    done = subprocess.run(
        (sys.executable, str(EXAMPLE)),
        env={**os.environ, **{name: str(port) for name, port in ports.items()}},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0], lines[-1]) == (0, "scheduled @every 1s", "done"), done.stderr
    assert sorted(lines[1:-1]) == ["remind 7", "remind 7", "remind 7", "report"]


@pytest.mark.nightly
def test_jobs_by_hand(dev: DevProcess, tmp_path: Path) -> None:
    app, file = ("--app-id", "billing"), str(tmp_path / "jobs.json")
    made = dev.run("dapr", "job", "schedule", *app, "--name", "a b", "--schedule", "@daily", "--data", '{"keep": 7}')
    assert (made.code, "first delivery" in made.out) == (0, True), made.err
    assert dev.run("dapr", "job", "schedule", *app, "--name", "a b", "--due-time", "1h").code == 4
    assert dev.run("dapr", "job", "schedule", *app, "--name", "x", "--schedule", "* * * * *").code == 2
    listed = dev.run("dapr", "job", "list", *app, "-o", "json").json
    assert [(each["name"], each["schedule"], each["fired"]) for each in listed] == [("a b", "@daily", 0)]
    assert "@daily" in dev.run("dapr", "job", "list", *app).out
    assert '{"keep": 7}' in dev.run("dapr", "job", "get", "a b", *app).out.replace('"value": ', "")
    assert dev.run("dapr", "job", "export", file, *app).out.startswith("exported 1 to")
    assert dev.run("dapr", "job", "export", file, *app).code == 2, "no file is overwritten"
    assert dev.run("dapr", "job", "delete", "a b", *app).code == 0
    assert dev.run("dapr", "job", "get", "a b", *app).code == 3
    assert dev.run("dapr", "job", "import", file, *app).out == "imported 1\n"
    assert dev.run("dapr", "job", "import", file, *app).code == 4
    assert dev.run("dapr", "job", "delete", "--prefix", "a", *app).out == "deleted 1\n"
    assert dev.run("dapr", "job", "list", *app).out == "no jobs\n"


def test_an_endpoint_without_an_app_is_refused(dev: DevProcess) -> None:
    refused = dev.run("dapr", "serve", STREAMSCHED_DATABASE_URL="postgresql://127.0.0.1:9/none")

    assert (refused.code, "STREAMSCHED_DAPR_APP_ID is not set" in refused.err) == (2, True)

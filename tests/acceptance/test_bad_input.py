"""Bad input, each with an error that names the field and says what to do; and nothing else is lost by it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

GOOD: dict[str, Any] = {
    "application": "bad",
    "programs": [{"name": "join", "type": "bash", "command": "true"}],
    "schedules": [
        {"name": "s", "program": "join", "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 7}}
    ],
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """A scheduler that knows a good app, and has three of seven partitions."""
    dev = DevProcess(tmp_path_factory.mktemp("bad"))
    dev.start()
    try:
        (dev.folder / "good.json").write_text(json.dumps(GOOD))
        assert dev.run("deploy", "good.json").code == 0
        assert dev.run("event", "emit", "partitions", "flights", "a", "b", "c").code == 0
        dev.until(lambda: "3 of 7" in dev.run("schedule", "show", "bad.s").out)
        yield dev
    finally:
        dev.close()


@pytest.fixture(autouse=True)
def _nothing_else_is_lost(running: DevProcess) -> Iterator[None]:
    yield
    shown = running.run("schedule", "show", "bad.s", "-o", "json").json
    assert (shown["generation"], shown["enabled"], shown["progress"]["have"]) == (1, True, 3)
    assert running.run("job", "list", "--schedule", "bad.s", "-o", "json").json == []


def app_with(**change: Any) -> dict[str, Any]:
    """The good app with its schedule's fields changed."""
    app = deepcopy(GOOD)
    app["schedules"][0].update(change)
    return app


@pytest.mark.parametrize(
    ("app", "path", "words"),
    [
        pytest.param(
            app_with(trigger={"type": "MOON", "phase": "full"}),
            "schedules[0].trigger.type",
            "MOON",
            id="trigger type",
        ),
        pytest.param(
            app_with(trigger={"type": "PARTITION", "dataset": "flights", "numPartitions": 0}),
            "schedules[0].trigger.numPartitions",
            "at least 1",
            id="0 partitions",
        ),
        pytest.param(
            app_with(trigger={"type": "TIME", "cronExpression": "0 0 30 2 *"}),
            "schedules[0].trigger.cronExpression",
            "never",
            id="cron that never matches",
        ),
        pytest.param(
            app_with(trigger={"type": "TIME", "cronExpression": "0 4 * * *", "timeZone": "Mars/Olympus"}),
            "schedules[0].trigger.",
            "Mars/Olympus",
            id="unknown zone",
        ),
        pytest.param(app_with(program="nobody"), "schedules", "nobody", id="unknown program"),
    ],
)
def test_a_definition_that_cannot_hold(running: DevProcess, app: dict[str, Any], path: str, words: str) -> None:
    (running.folder / "bad.json").write_text(json.dumps(app))
    said = running.run("deploy", "bad.json")
    assert said.code == 2, said
    assert path in said.err
    assert words in said.err
    assert "Traceback" not in said.err

    url = json.loads((running.state / "dev.json").read_text())["url"]
    answer = httpx.put(f"{url}/v1/apps/default/bad", json=app, headers=running.authorization)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["path"].startswith(f"$.{path}")
    assert words in answer.json()["reason"]


def test_malformed_json(running: DevProcess) -> None:
    said = running.run("event", "emit", "json", "-", stdin='{"id": "x",')
    assert said.code == 2
    assert "is not JSON" in said.err
    assert "not JSON" in said.err
    (running.folder / "broken.json").write_text("{")
    said = running.run("deploy", "broken.json")
    assert said.code == 2
    assert "broken.json" in said.err


def test_an_event_for_a_dataset_without_listeners(running: DevProcess) -> None:
    said = running.run("event", "emit", "partitions", "flihgts", "day=1")
    assert said.code == 0
    assert "no schedule listens to partition:default.flihgts" in said.err


def test_a_dataset_that_cannot_exist(running: DevProcess) -> None:
    said = running.run("event", "emit", "partitions", "a/b", "day=1")
    assert said.code == 2
    assert "data.dataset" in said.err


def test_a_spark_main_file_that_does_not_exist(running: DevProcess) -> None:
    app = {"application": "spark", "programs": [{"name": "join", "type": "spark", "main": "missing.py"}]}
    (running.folder / "spark.json").write_text(json.dumps(app))
    said = running.run("deploy", "spark.json")
    assert said.code == 2
    assert "programs[0].main" in said.err
    assert "missing.py does not exist" in said.err

    assert running.run("deploy", "spark.json", "--elsewhere").code == 0
    run = running.run("program", "start", "spark.join", "-o", "json").json["run"]
    ended = running.until(lambda: ended_run(running, run))
    assert ended["state"] == "FAILED"
    assert "missing.py" in ended["reason"]


def test_a_port_in_use(running: DevProcess, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = running.run("dev", "--data-dir", str(tmp_path / "other"), "--port", str(port))
    assert said.code == 2
    assert f"port {port}" in said.err
    assert "--port" in said.err
    assert not (tmp_path / "other" / "postgres").exists()


@pytest.mark.spark
def test_no_java(tmp_path: Path) -> None:
    """A PATH with everything but Java: said at the start, and by the run that needed it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if not tool.name.startswith("java") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    dev = DevProcess(tmp_path)
    (tmp_path / "main.py").write_text("")
    app = {"application": "spark", "programs": [{"name": "join", "type": "spark", "main": "main.py"}]}
    (tmp_path / "spark.json").write_text(json.dumps(app))
    try:
        assert "no Java found" in dev.start(PATH=str(tools), JAVA_HOME="")
        assert dev.run("deploy", "spark.json").code == 0
        run = dev.run("program", "start", "spark.join", "-o", "json").json["run"]
        ended = dev.until(lambda: ended_run(dev, run))
        assert ended["state"] == "FAILED"
        assert "Java" in ended["reason"]
    finally:
        dev.close()


def ended_run(dev: DevProcess, run: str) -> dict[str, Any] | None:
    found = dev.run("run", "show", run, "-o", "json").json
    return found if found["endedAt"] else None

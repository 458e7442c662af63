"""Nodes that wait for events, against a running `streamsched dev` that is killed in the middle, on each log."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

APP = """
from streamsched import App, event, partitions

app = App("shop")
app.bash("say", "echo {task} {job_id}", fill=True)
days = {"date": "date"}
app.task("clean", "say", job_id="{date}", components=days)
app.task("report", "say", job_id="{date}", components=days, depends_on=["clean", partitions("sales").per("date")])
app.task("bill", "say", job_id="{date}", components=days, depends_on={"a": {"task": ["report"]}, "b": {"event": "now"}})
app.task("scan", "say", job_id="{year}")
clock = {"cronExpression": "*/2 * * * * *", "format": {"year": "%Y"}}
app.task("close", "say", job_id="{year}", depends_on={"both": {"task": ["scan"], "cron": clock}})
"""
YAML = """
application: rack
programs:
  say: {type: bash, command: "true"}
tasks:
  first: {job_id: "{date}", program: say, components: {date: date}, depends_on: {cron: "0 6 * * *"}}
  second:
    job_id: "{n}_{m}"
    program: say
    depends_on: {task: [third], event: {event: landed, by: [n]}}
    autofill_values: {m: [1]}
  third: {job_id: "{n}", program: say}
"""
WRONG = YAML.replace("    autofill_values: {m: [1]}\n", "")
STOLOS = {"load": {"job_id": "{n}", "bash_cmd": "true", "depends_on": {"partitions": "parts"}}}


def _running(folder: Path, *options: str) -> Iterator[DevProcess]:
    for name, text in (("app.py", APP), ("rack.yaml", YAML), ("wrong.yaml", WRONG), ("tasks.json", json.dumps(STOLOS))):
        (folder / name).write_text(text)
    dev = DevProcess(folder)
    dev.start(*options)
    try:
        deployed = dev.run("deploy", "app.py")
        assert deployed.code == 0, deployed
        yield dev
    finally:
        dev.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    yield from _running(tmp_path_factory.mktemp("arrivals"))


@pytest.fixture
def on_kafka(tmp_path: Path, kafka_log: str) -> Iterator[DevProcess]:
    yield from _running(tmp_path, "--broker", kafka_log)


def _state(dev: DevProcess, task: str, job_id: str) -> Any:
    return dev.run("graph", "why", task, job_id, "-o", "json").json["state"]


def _released(dev: DevProcess, day: str, *options: str) -> None:
    """The node of the day waits for its partition, and runs once for it although everything is killed meanwhile."""
    assert "waits for partition date=" in dev.run("graph", "submit", "shop.report", "-j", day).out
    dev.until(lambda: _state(dev, "shop.clean", day) == "COMPLETED")
    why = dev.run("graph", "why", "shop.report", day)
    assert f"waits for partition date={day} of sales, not arrived" in why.out, why
    written = f"date={day[:4]}-{day[4:6]}-{day[6:]}"
    assert dev.run("event", "emit", "partitions", "sales", written, "--id", f"e{day}").code == 0
    dev.stop(signal.SIGKILL)
    dev.start(*options)
    dev.until(lambda: _state(dev, "shop.bill", day) == "COMPLETED")
    assert dev.run("event", "emit", "partitions", "sales", written).code == 0
    assert "has arrived" in dev.run("graph", "why", "shop.partitions-sales-date", day).out
    runs = dev.run("run", "list", "-o", "json", "--limit", "1000").json
    by_schedule = [each["schedule"].rpartition(".")[2] for each in runs if f".node-{day}-" in each["id"]]
    assert sorted(by_schedule) == ["bill", "clean", "report"], runs


def test_a_partition_releases_a_node_once(shop: DevProcess) -> None:
    _released(shop, "20140101")


@pytest.mark.nightly
@pytest.mark.kafka
def test_a_partition_releases_a_node_once_on_kafka(on_kafka: DevProcess, kafka_log: str) -> None:
    _released(on_kafka, "20140101", "--broker", kafka_log)


def test_what_arrived_first_counts_and_pictures_show_it(shop: DevProcess) -> None:
    assert shop.run("event", "emit", "partitions", "sales", "date=2014-02-02").code == 0
    shop.until(lambda: _state(shop, "shop.partitions-sales-date", "20140202") == "COMPLETED")
    said = shop.run("graph", "submit", "shop.report", "-j", "20140202", "--wait")
    assert said.code == 0, said
    assert '"partition of sales<br/>arrives for {date}"' in shop.run("graph", "show", "shop", "-o", "mermaid").out
    node = ("graph", "show", "shop", "--task", "report", "-j")
    assert '"partition date=20140202 of sales<br/>arrived"' in shop.run(*node, "20140202", "-o", "mermaid").out
    assert re.search(r"partitions-sales-date +20140303 +not arrived +report", shop.run(*node, "20140303").out)
    refused = shop.run("graph", "submit", "shop.partitions-sales-date", "-j", "20140202")
    assert "runs nothing; partition date=20140202 of sales completes the node" in refused.err


@pytest.mark.nightly
def test_a_node_runs_once_when_its_time_has_come_and_its_parent_is_complete(shop: DevProcess) -> None:
    year = str(datetime.now(UTC).year)
    tasks = [each["name"] for each in shop.run("graph", "status", "shop", "-o", "json").json["tasks"]]
    (clock,) = (name for name in tasks if name.startswith("cron-"))
    shop.until(lambda: _state(shop, f"shop.{clock}", year) == "COMPLETED")
    assert _state(shop, "shop.close", year) == "WAITING", "its parent has not run"
    shop.stop(signal.SIGKILL)
    shop.start()
    said = shop.run("graph", "submit", "shop.close", "-j", year, "--wait")
    assert said.code == 0, said
    shop.until(lambda: _state(shop, "shop.close", year) == "COMPLETED")
    runs = shop.run("run", "list", "-o", "json", "--limit", "1000").json
    ran = sorted(each["schedule"].rpartition(".")[2] for each in runs if f".node-{year}-" in each["id"])
    assert ran == ["close", "scan"], "later ticks of the same year run nothing again"


def test_yaml_and_tasks_json_name_what_arrives(shop: DevProcess) -> None:
    assert shop.run("deploy", "rack.yaml").code == 0
    assert shop.run("import", "stolos", "tasks.json").code == 0
    assert shop.run("event", "emit", "partitions", "parts", "n=7").code == 0
    shop.until(lambda: _state(shop, "stolos.load", "7") == "COMPLETED")
    said = shop.run("deploy", "wrong.yaml").err
    assert "wrong.yaml tasks.second.depends_on: does not say for which 'm' of task 'second'" in " ".join(
        said.split()
    ), said


def test_one_node_runs_here_with_the_preferences_of_its_namespace(shop: DevProcess) -> None:
    (shop.folder / "pref.py").write_text(
        "from streamsched import App\napp = App('pref')\n"
        "app.bash('say', 'echo {client} {size} {kind}', fill=True, defaults={'size': 'small', 'kind': 'plain'})\n"
        "app.task('clean', 'say', job_id='{client}', properties={'kind': 'own'})\n"
    )
    assert shop.run("deploy", "pref.py").code == 0
    assert shop.run("namespace", "preferences", "set", "default", "size=big", "kind=any", "client=x").code == 0
    done = shop.run("graph", "run", "pref.clean", "a", "--bypass")
    assert (done.code, done.out) == (0, "a big own\n"), done

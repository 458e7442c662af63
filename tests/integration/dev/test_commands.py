"""The command line against a running `streamsched dev`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

KEYED = """
from streamsched import App, partitions

app = App("keyed")
app.schedule("both", app.bash("run", "true"), when=(partitions("sales") & partitions("stock")).per("date"))
"""

WHERE = """
from streamsched import App

app = App("where")
app.bash("emit", "echo $STREAMSCHED_EMIT_URL")
"""


def test_help_comes_at_once(running: DevProcess) -> None:
    began = time.perf_counter()
    said = running.run("--help")
    took = time.perf_counter() - began
    assert said.code == 0
    assert "dev" in said.out
    assert took < 5  # far above what it takes (0.3 s): a busy machine must not fail it


def test_an_event_is_followed_by_hand_through_schedule_job_and_run(running: DevProcess) -> None:
    assert running.run("event", "emit", "partitions", "flights", "day=1", "day=2").code == 0
    shown = running.until(
        lambda: said if "2 of 2" in (said := running.run("schedule", "show", "demo.two")).out else None
    )
    assert "starts demo.hello when 2 new partitions of flights and 1 new partition of weather" in shown.out
    assert "0 of 1" in shown.out
    assert running.run("event", "emit", "partitions", "weather", "day=1").code == 0
    job, run = "default.demo.two.1.1", "default.demo.two.1.1.r1"
    running.until(lambda: running.completed(run, "default.demo.then.1.1.r1"))
    assert running.run("run", "logs", run).out == f"hello from {run}\n"
    assert running.run("job", "list", "--schedule", "demo.two", "-o", "json").json[0]["state"] == "LAUNCHED"
    why = running.run("job", "why", job)
    assert "satisfied by" in why.out, why
    assert running.run("job", "show", job).code == 0
    assert running.run("run", "show", run, "-o", "json").json["exitCode"] == 0


def test_lists_are_tables_for_people_and_json_for_programs(running: DevProcess) -> None:
    assert "\ndemo.two " in running.run("schedule", "list").out
    ids = [each["id"] for each in running.run("program", "list", "-o", "json").json]
    assert ids == ["default.demo.after", "default.demo.hello"]


@pytest.mark.long
def test_open_keys_are_counted_and_each_tells_its_own_progress(dev: DevProcess) -> None:
    dev.start()
    (dev.folder / "keyed.py").write_text(KEYED)
    assert dev.run("deploy", "keyed.py").code == 0
    for day in ("date=2013-01-01", "date=2013-01-02"):
        dev.run("event", "emit", "partitions", "sales", day)
    dev.until(lambda: "2 keys are open" in dev.run("schedule", "show", "keyed.both").out)
    dev.run("event", "emit", "partitions", "stock", "date=2013-01-02")
    dev.until(lambda: "1 key is open" in dev.run("schedule", "list").out)

    shown = dev.run("schedule", "keys", "keyed.both").out

    assert "2013-01-01 open since" in shown
    assert "✓ 1 new partition of sales: 1 of 1" in shown
    assert "2013-01-02" not in shown


def test_a_schedule_is_switched_off_and_on(running: DevProcess) -> None:
    assert "is disabled" in running.run("schedule", "disable", "demo.never").out
    assert running.run("schedule", "disable", "demo.never").code == 4
    assert "is enabled" in running.run("schedule", "enable", "demo.never").out


def test_a_program_is_started_and_a_run_killed_by_hand(running: DevProcess) -> None:
    run = running.run("program", "start", "demo.after", "day=1", "-o", "json").json["run"]
    running.until(lambda: running.run("run", "show", run, "-o", "json").json["state"] == "COMPLETED")
    assert running.run("run", "kill", run).code == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "show", "demo.nothing"),
        ("job", "why", "demo.two.9.9"),
        ("run", "logs", "nothing"),
        ("program", "start", "demo.nothing"),
    ],
)
def test_what_does_not_exist_is_3_and_named(running: DevProcess, arguments: tuple[str, ...]) -> None:
    said = running.run(*arguments)
    assert said.code == 3
    assert arguments[-1] in said.err
    assert "Traceback" not in said.err


def test_events_come_from_a_file_or_standard_input_in_any_dialect(running: DevProcess) -> None:
    cloud = {"specversion": "1.0", "id": "x", "source": "test", "type": "org.example.thing"}
    said = running.run("event", "emit", "json", "-", stdin=json.dumps([cloud, {"type": "nonsense"}]))
    assert said.code == 2
    assert "1 event accepted: x" in said.out
    assert "event 1: [1].type: " in said.err
    assert "$" not in said.err
    assert running.run("event", "emit", "json", "missing.json").code == 2
    assert running.run("event", "emit", "stream", "clicks", "1000", "--growth").code == 0


def test_a_second_scheduler_in_the_same_folder_says_who_is_there(running: DevProcess) -> None:
    said = running.run("dev", "--port", "0")
    assert said.code == 2
    assert "already runs" in said.err
    assert str(running.state) in said.err


def test_no_server_is_5_and_says_what_to_do(running: DevProcess) -> None:
    said = running.run("job", "list", "--url", "http://127.0.0.1:9")
    assert said.code == 5
    assert "streamsched dev" in said.err


@pytest.mark.long
def test_a_folder_named_by_the_environment_is_kept_and_found_and_runs_emit_to_its_own_api(dev: DevProcess) -> None:
    named: dict[str, Any] = {"STREAMSCHED_DATA_DIR": "elsewhere", "STREAMSCHED_EMIT_URL": "http://127.0.0.1:9"}
    dev.start(**named)
    dev.state = dev.folder / "elsewhere"
    (dev.folder / "where.py").write_text(WHERE)
    assert dev.run("deploy", "where.py", **named).code == 0
    run = dev.run("program", "start", "where.emit", "-o", "json", **named).json["run"]

    said = dev.until(lambda: dev.run("run", "logs", run, **named).out)

    assert said == json.loads((dev.state / "dev.json").read_text())["url"] + "\n"
    assert dev.run("topics", "check", **named).code == 0
    assert not (dev.folder / ".streamsched").exists()


def test_a_webhook_is_made_and_changed_in_place(running: DevProcess) -> None:
    made = running.run("webhook", "create", "alerts", "https://hooks.example.com/a", "--change", "run.failed")
    assert (made.code, made.out.startswith("whsec_")) == (0, True), made
    changed = running.run("webhook", "change", "alerts", "--to", "https://hooks.example.com/b", "-o", "json").json
    assert (changed["url"], changed["changes"]) == ("https://hooks.example.com/b", ["run.failed"])
    renewed = running.run("webhook", "change", "alerts", "--new-secret")
    assert (renewed.out.startswith("whsec_"), renewed.out != made.out) == (True, True), renewed
    assert "https://hooks.example.com/b" in running.run("webhook", "change", "alerts", "--timeout", "9s").out
    assert running.run("webhook", "change", "alerts").code == 2
    assert running.run("webhook", "change", "alerts", "--secret", "env:KEY", "--new-secret").code == 2
    assert running.run("webhook", "delete", "alerts").code == 0

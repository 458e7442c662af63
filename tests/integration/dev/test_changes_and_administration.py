"""Commands about changes, pauses and the installation, as a person types them beside `streamsched dev`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(600)]

CHANGED = """
from streamsched import App, partitions

app = App("demo")
hello = app.bash("hello", "echo hello from $STREAMSCHED_RUN_ID")
app.schedule("two", hello, when=partitions("flights", 3))
"""


def progress(dev: DevProcess) -> int:
    found = dev.run("schedule", "show", "demo.two", "-o", "json").json["progress"]
    return 0 if found is None else found["children"][0]["have"]


@pytest.mark.nightly
def test_a_difference_is_reported_before_it_is_made_and_keeping_is_asked_for(running: DevProcess) -> None:
    assert running.run("deploy", "app.py").code == 0
    assert running.run("diff", "app.py").code == 0
    assert "nothing would change" in running.run("diff", "app.py").out
    running.run("event", "emit", "partitions", "flights", "day=1")
    running.until(lambda: progress(running) == 1)
    (running.folder / "changed.py").write_text(CHANGED)

    said = running.run("diff", "changed.py")
    assert said.code == 6
    assert "1 of 2 of '2 new partitions of flights' would be lost" in said.out
    assert "--keep would keep it" in said.out
    assert "demo.never would be deleted" in said.out
    kept = running.run("diff", "changed.py", "--keep", "-o", "json")
    assert (kept.code, kept.json["differs"]) == (6, True)
    two = next(each for each in kept.json["schedules"] if each["id"].endswith(".two"))
    assert (two["keeps"], two["accumulated"][0]["fits"]) == (True, True)

    said = running.run("deploy", "changed.py", "--keep")
    assert said.code == 7, "it deletes schedules, so it asks"
    said = running.run("deploy", "changed.py", "--keep", "--yes")
    assert "1 of 2 of '2 new partitions of flights' would be kept" in said.out
    running.run("event", "emit", "partitions", "flights", "day=2", "day=3")
    running.until(lambda: running.run("job", "list", "-o", "json").json)

    assert running.run("deploy", "app.py", "--yes").code == 0


def test_one_schedule_is_updated_from_a_file_and_paused_by_name_or_with_its_app(running: DevProcess) -> None:
    definition = {
        "program": "after",
        "trigger": {"type": "PARTITION", "dataset": "nowhere", "numPartitions": 1},
        "description": "typed",
    }
    (running.folder / "never.json").write_text(json.dumps(definition))
    assert "description" in running.run("schedule", "update", "demo.never", "never.json", "--dry-run").out
    assert running.run("schedule", "update", "demo.never", "never.json", "--keep").code == 0

    said = running.run("schedule", "pause", "demo.never", "--until", "1d", "--note", "upgrade of disks")
    assert "keeping events: upgrade of disks" in said.out
    assert "paused until" in running.run("schedule", "show", "demo.never").out
    assert running.run("schedule", "pause", "demo.never", "--until", "yesterday").code == 2
    assert running.run("schedule", "resume", "demo.never").code == 0
    assert running.run("schedule", "resume", "demo.never").code == 4

    assert "is paused" in running.run("schedule", "pause", "--app", "demo").out
    assert "nothing to pause" in running.run("schedule", "pause", "--app", "demo").out
    assert "is resumed" in running.run("schedule", "resume", "--app", "demo").out
    assert running.run("schedule", "pause").code == 2
    assert running.run("schedule", "pause", "--app", "nobody").code == 3


@pytest.mark.nightly
def test_the_installation_is_looked_at_through_its_api_from_anywhere(running: DevProcess, tmp_path: Path) -> None:
    """Also where the environment names the database of another one: the API that is named is the one that is asked."""
    url = json.loads((running.state / "dev.json").read_text())["url"]
    elsewhere = {
        "STREAMSCHED_DATA_DIR": str(tmp_path / "elsewhere"),
        "STREAMSCHED_URL": url,
        "STREAMSCHED_TOKEN": running.token,
    }
    running.until(lambda: running.run("doctor", **elsewhere).code == 0)
    wrong = {**elsewhere, "STREAMSCHED_DATABASE_URL": "postgresql://127.0.0.1:1/other"}
    found = {each["check"]: each for each in running.run("doctor", "-o", "json", **wrong).json}
    assert found["installation"]["found"] == url
    assert "java" in found
    assert running.run("doctor", "--direct", **wrong).code == 5

    def well() -> bool:
        shards = running.run("top", "--once", "-o", "json", **elsewhere).json["shards"]
        return {each["state"] for each in shards} == {"ok"}

    running.until(well)
    assert running.run("state", "show", "demo.two", **elsewhere).json["schedule"] == "default.demo.two"
    assert running.run("state", "show", "demo.typo", **elsewhere).code == 3
    assert "no dead letters" in running.run("dlq", "list", **elsewhere).out
    assert "0 letters" in running.run("dlq", "purge", **elsewhere).out
    assert running.run("dlq", "show", "0/99", **elsewhere).code == 3


def test_the_installation_is_looked_at_from_the_same_folder(running: DevProcess) -> None:
    running.until(lambda: running.run("doctor").code == 0)
    assert "failed" not in {each["health"] for each in running.run("doctor", "-o", "json").json}
    assert running.run("topics", "check").code == 0
    assert running.run("topics", "create").code == 0
    assert "agree" in running.run("resync").out
    assert running.run("state", "show", "demo.two").json["schedule"] == "default.demo.two"
    assert running.run("state", "show", "demo.typo").code == 3
    exported = running.run("state", "export", "-")
    assert json.loads(exported.out.splitlines()[0])["v"] == 1
    assert running.run("state", "import", "-", stdin=exported.out).code == 4
    nowhere = running.run("state", "export", "gone/state.jsonl")
    assert (nowhere.code, nowhere.err) == (
        2,
        "error: FILE: gone/state.jsonl cannot be opened: No such file or directory\n",
    )
    assert "no dead letters" in running.run("dlq", "list").out
    assert "0 letters" in running.run("dlq", "purge").out
    assert running.run("dlq", "show", "nonsense").code == 2


def test_a_renamed_schedule_with_waiting_jobs_is_not_dropped_unasked(running: DevProcess) -> None:
    """And the way that the plan names loses none."""
    app = """
from streamsched import App, group, partitions

app = App("renamed")
hello = app.bash("hello", "true")
{schedules}
"""
    line = 'app.schedule("{name}", hello, when=partitions("boxes", 1), constraints=[group("none", 1)])'
    old, new = line.replace("{name}", "old"), line.replace("{name}", "new")
    for name, schedules in {"old.py": old, "new.py": new, "both.py": f"{old}\n{new}"}.items():
        (running.folder / name).write_text(app.replace("{schedules}", schedules))
    assert running.run("group", "set", "none", "0", "--reason", "closed").code == 0
    assert running.run("deploy", "old.py").code == 0
    assert running.run("event", "emit", "partitions", "boxes", "n=1").code == 0
    listed = ("job", "list", "--schedule", "renamed.old", "-o", "json")
    running.until(lambda: running.run(*listed).json)
    (job,) = (each["id"] for each in running.run(*listed).json)

    planned = running.run("diff", "new.py").out.replace("\n", " ")
    assert "1 waiting job would end" in planned
    assert "a new name is a new schedule" in planned
    assert "streamsched schedule pause renamed.old --drain" in planned
    refused = running.run("deploy", "new.py")
    assert refused.code == 7, refused
    assert running.run("job", "show", job, "-o", "json").json["state"] == "PENDING_CONSTRAINT"

    assert running.run("deploy", "both.py").code == 0
    assert running.run("schedule", "pause", "renamed.old", "--drain").code == 0
    assert running.run("group", "set", "none", "1", "--reason", "open").code == 0
    running.until(lambda: "COMPLETED" in running.run("run", "list", "--app", "renamed").out, within=120)
    assert "waiting job" not in running.run("diff", "new.py").out
    assert running.run("deploy", "new.py", "--yes").code == 0

"""Files of apps are planned, applied and pruned, and a schedule is rolled back, on a whole scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    made = DevProcess(tmp_path_factory.mktemp("apply"))
    made.start()
    try:
        yield made
    finally:
        made.close()


def write(folder: Path, app: str, *programs: str, cron: str = "0 2 * * *") -> None:
    definition = {
        "application": app,
        "programs": {name: {"type": "bash", "command": f"echo {name}"} for name in programs},
        "schedules": {
            name: {"program": name, "trigger": {"type": "TIME", "cronExpression": cron}} for name in programs
        },
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{app}.json").write_text(json.dumps(definition))


def actions(plan: dict[str, Any]) -> dict[str, str]:
    return {
        each["id"].removeprefix("default."): each["action"]
        for app in plan["apps"]
        for each in (*app["programs"], *app["schedules"])
    }


def test_apply_keeps_what_a_file_does_not_have_and_prune_deletes_it_after_saying_so(dev: DevProcess) -> None:
    folder = dev.folder / "apps"
    write(folder, "one", "a", "b")
    write(folder, "two", "c")

    planned = dev.run("plan", "apps", "-o", "json")
    assert (planned.code, set(actions(planned.json).values())) == (6, {"created"})
    assert dev.run("apply", "apps").code == 0
    assert dev.run("plan", "apps").code == 0

    write(folder, "one", "a")
    assert dev.run("plan", "apps").code == 0
    refused = dev.run("apply", "apps", "--prune")
    assert refused.code == 7
    assert "would be deleted:\n  program one.b\n  schedule one.b\n" in refused.out
    assert dev.run("schedule", "list", "--app", "one", "-o", "name").out.split() == ["one.a", "one.b"]

    assert dev.run("apply", "apps", "--prune", "--yes").code == 0
    assert dev.run("schedule", "list", "--app", "one", "-o", "name").out.split() == ["one.a"]
    assert dev.run("schedule", "list", "--app", "two", "-o", "name").out.split() == ["two.c"]


def test_a_schedule_is_rolled_back_by_the_same_plan(dev: DevProcess) -> None:
    folder = dev.folder / "rolled"
    for cron in ("0 2 * * *", "0 3 * * *", "0 4 * * *"):
        write(folder, "rolled", "a", cron=cron)
        assert dev.run("apply", "rolled").code == 0

    versions = dev.run("schedule", "versions", "rolled.a", "-o", "json").json
    assert [each["generation"] for each in versions] == [3, 2, 1]
    assert dev.run("schedule", "rollback", "rolled.a", "--to", "9").code == 3
    assert "0 3 * * *" in dev.run("schedule", "rollback", "rolled.a", "--dry-run").out

    done = dev.run("schedule", "rollback", "rolled.a", "--to", "1")
    assert done.out.endswith("rolled.a has the definition of generation 1; it is now generation 4\n")
    assert dev.run("schedule", "show", "rolled.a", "-o", "json").json["trigger"] == versions[2]["definition"]["trigger"]


def test_validate_names_each_wrong_field_without_a_server(dev: DevProcess) -> None:
    folder = dev.folder / "checked"
    write(folder, "fine", "a")
    write(folder, "never", "a", cron="0 0 31 2 *")
    (folder / "typo.yaml").write_text("application: typo\nprograms:\n  a: {type: bash, comand: x}\n")

    found = dev.run("validate", "checked", "--output", "json")

    assert found.code == 2
    assert [(Path(each["name"]).name, each["valid"]) for each in found.json] == [
        ("fine.json", True),
        ("never.json", False),
        ("typo.yaml", False),
    ]
    assert found.json[2]["path"] == "programs.a.command"

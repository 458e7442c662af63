"""A CDAP with 200 schedules is moved by the command line to a whole scheduler, and compared with what stands there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cdap_dump import Answers, action, application, dump, fork, save
from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(600)]

#: The programs of the dump as commands, which need no jar.
COMMANDS = {
    "programs": {
        name: {"type": "bash", "command": f"echo {name} $STREAMSCHED_ARG_OWNER"} for name in ("join", "clean", "sum-up")
    }
}


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    made = DevProcess(tmp_path_factory.mktemp("cdap"))
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def api(dev: DevProcess) -> Iterator[httpx.Client]:
    url = json.loads((dev.state / "dev.json").read_text())["url"]
    with httpx.Client(base_url=url, headers=dev.authorization, timeout=30) as client:
        yield client


def ok(dev: DevProcess, *arguments: str) -> str:
    done = dev.run(*arguments, within=300)
    assert done.code == 0, done.out[-2000:] + done.err[-2000:]
    return done.out


def shown(client: httpx.Client, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def differences(client: httpx.Client, answers: Answers) -> dict[str, int]:
    """How many schedules of the dump differ, by field, from what CDAP's API shows here; and how many are compared."""
    found: dict[str, int] = {"compared": 0}
    for path, schedules in answers.items():
        if path[-1] != "schedules":
            continue
        here = {each["name"]: each for each in shown(client, f"/v3/{'/'.join(path)}")}
        for schedule in schedules:
            other = here[schedule["name"]]
            found["compared"] += 1
            for field in schedule.keys() | other.keys():
                if field != "lastUpdateTime" and schedule.get(field) != other.get(field):
                    found[field] = found.get(field, 0) + 1
    return found


def test_200_schedules_of_40_applications(dev: DevProcess, api: httpx.Client) -> None:
    answers = dump(newest=int(time.time()) - 7200)
    save(answers, dev.folder / "dump")

    said = ok(dev, "import", "cdap", "dump", "--to", "apps/")
    assert "cdap apps 40 programs 214 schedules 200 preferences 24 runs 1200 refused 19\n" in said
    assert "40 valid, 0 invalid" in ok(dev, "validate", "apps/")
    ok(dev, "apply", "apps/", "--elsewhere", "--yes")
    assert "namespace sales: 3 preferences set" in ok(dev, "import", "preferences", "apps/cdap-state/preferences.json")
    assert "1200 runs added, 0 known already" in ok(dev, "import", "runs", "apps/cdap-state/runs.jsonl")

    # `limit` of the namespace default would override that of program load, which is a preference in CDAP.
    own = [path for path in answers if path[-2:] == ("load", "preferences") and path[1] == "default"]
    of_load = sum(each["program"]["programName"] == "load" for path in own for each in answers[*path[:4], "schedules"])
    assert differences(api, answers) == {"compared": 200, "properties": of_load}
    assert [len(shown(api, f"/v3/namespaces/{each}/apps")) for each in ("default", "sales")] == [20, 20]
    assert shown(api, "/v3/namespaces/sales/preferences") == {"env": "production", "limit": "10", "region": "emea"}
    runs = shown(api, "/v1/runs?program=default.app00.load&limit=1000")
    listed = runs["runs"] if isinstance(runs, dict) else runs
    assert len(listed) == 100
    assert listed[0]["id"] == "default.app00.load.cdap-0-load-0-1f2e-11ee.r1"

    # Importing twice gives the same, and no run of the past has started anything.
    assert dev.run("import", "cdap", "dump", "--to", "apps/").code != 0
    ok(dev, "import", "cdap", "dump", "--to", "apps/", "--force")
    assert dev.run("plan", "apps/", "--elsewhere", within=120).code == 0
    assert "0 runs added, 1200 known already" in ok(dev, "import", "runs", "apps/cdap-state/runs.jsonl")
    assert [each for each in ok(dev, "job", "list", "-o", "name").split() if not each.startswith("moved.")] == []


def test_a_workflow_runs_as_a_graph_and_who_waits_for_it_runs_after_it(dev: DevProcess, api: httpx.Client) -> None:
    at = ("namespaces", "moved", "apps", "shop")
    status = {
        "type": "PROGRAM_STATUS",
        "programId": {"namespace": "moved", "application": "shop", "type": "Workflow", "program": "report"},
        "programStatuses": ["COMPLETED"],
    }
    nightly = {
        "name": "nightly",
        "application": "shop",
        "program": {"programName": "report", "programType": "WORKFLOW"},
    }
    after = {"name": "after", "application": "shop", "program": {"programName": "load", "programType": "WORKFLOW"}}
    answers: Answers = {
        ("namespaces",): [{"name": "moved"}],
        ("namespaces", "moved", "apps"): [{"name": "shop"}],
        **application("moved", "shop"),
        (*at, "workflows", "report"): {"nodes": [fork([action("clean")], [action("sum up")]), action("join")]},
        (*at, "schedules"): [
            {**nightly, "trigger": {"type": "TIME", "cronExpression": "0 4 29 2 ?"}, "properties": {"day": "x"}},
            {**after, "trigger": status},
        ],
    }
    save(answers, dev.folder / "shop")
    (dev.folder / "commands.json").write_text(json.dumps(COMMANDS))
    ok(dev, "import", "cdap", "shop", "--to", "shop-apps/", "--programs", "commands.json")
    ok(dev, "apply", "shop-apps/", "--yes")

    ok(dev, "run", "start", "--schedule", "moved.shop.nightly", "--wait")

    def ended() -> list[str]:
        runs = shown(api, "/v1/runs?namespace=moved&limit=100")
        listed = runs["runs"] if isinstance(runs, dict) else runs
        assert all(each["state"] != "FAILED" for each in listed), listed
        return [each["schedule"] for each in reversed(listed) if each["state"] == "COMPLETED"]

    done = dev.until(lambda: found if "moved.shop.after" in (found := ended()) else None, within=120)
    assert sorted(done) == [
        f"moved.shop.{each}"
        for each in ("after", "nightly", "report-clean", "report-completed", "report-join", "report-sum-up")
    ]
    assert done[0] == "moved.shop.nightly"
    assert done[-3:] == ["moved.shop.report-join", "moved.shop.report-completed", "moved.shop.after"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "namespaces: there is no such answer: is it a CDAP, or a folder of its answers?"),
        ("{no json", "namespaces: is not valid JSON"),
        ("7", "namespaces: is not a list"),
    ],
)
def test_a_folder_that_is_no_dump(dev: DevProcess, content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "namespaces.json").write_text(content)

    refused = dev.run("import", "cdap", str(tmp_path), "--to", "nothing/")

    assert (refused.code, said in refused.err) == (2, True), refused
    assert not (dev.folder / "nothing").exists()

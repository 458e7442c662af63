"""Graphs against a running `streamsched dev`: the commands, both ways of definition, and real processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess
from tests.unit.codec.test_stolos_tasks import TASKS

pytestmark = pytest.mark.postgres

APP = """
from streamsched import App

app = App("shop")
app.bash("say", 'echo $STREAMSCHED_ARG_TASK $STREAMSCHED_ARG_JOB_ID; test "$STREAMSCHED_ARG_CLIENT" != bad')
days = {"date": "date"}
app.task("clean", "say", job_id="{date}_{client}", components=days)
app.task("model", "say", job_id="{date}_{client}", depends_on="clean", max_concurrent=2, of="key")
app.task(
    "report", "say", job_id="{date}", components=days,
    depends_on={"task": ["model"], "client": ["a", "b"]},
)
"""
#: A name with a slash, as the documentation of Stolos has them.
SALES = {"sales/clean": {"job_id": "{date}_{client}", "bash_cmd": "echo {app_name} {date}"}}
YAML = """
application: rack
programs:
  say: {type: bash, command: "true"}
tasks:
  first: {job_id: "{n}", program: say}
  second: {job_id: "{n}", program: say, depends_on: {task: [first]}, schedule: {description: after the first}}
"""
CHAIN = """
application: chain
programs:
  say: {type: bash, command: "true"}
  fail: {type: bash, command: "false"}
tasks:
  first: {job_id: "{n}", program: fail}
  second: {job_id: "{n}", program: say, depends_on: {task: [first]}}
  third: {job_id: "{n}", program: say, depends_on: {task: [second]}}
  fourth: {job_id: "{n}", program: say, depends_on: {task: [third]}}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    folder: Path = tmp_path_factory.mktemp("shop")
    (folder / "app.py").write_text(APP)
    (folder / "rack.yaml").write_text(YAML)
    (folder / "tasks.json").write_text(json.dumps(TASKS))
    (folder / "odd").mkdir()
    (folder / "odd" / "sales.json").write_text(json.dumps(SALES))
    (folder / "odd" / "wrong.yaml").write_text("b: {depends_on: {app_name: [sales/clean, gone]}}")
    dev = DevProcess(folder)
    dev.start()
    try:
        deployed = dev.run("deploy", "app.py")
        assert deployed.code == 0, deployed
        yield dev
    finally:
        dev.close()


def test_a_leaf_runs_after_everything_it_lacks(shop: DevProcess) -> None:
    planned = shop.run("graph", "submit", "shop.report", "-j", "20140101", "--dry-run")
    assert "runs: 2 of clean" in planned.out, planned
    assert "not asked for" in shop.run("graph", "why", "shop.report", "20140101").out

    done = shop.run("graph", "submit", "shop.report", "-j", "20140101", "--wait")

    assert done.code == 0, done
    assert "submitted; 2 jobs were made" in done.out
    shown = shop.run("graph", "show", "shop", "-o", "json").json
    nodes = [each for each in shown if each["jobId"].startswith("20140101")]
    assert [(each["task"], each["jobId"], each["state"]) for each in nodes] == [
        ("clean", "20140101_a", "COMPLETED"),
        ("clean", "20140101_b", "COMPLETED"),
        ("model", "20140101_a", "COMPLETED"),
        ("model", "20140101_b", "COMPLETED"),
        ("report", "20140101", "COMPLETED"),
    ]
    assert "COMPLETED already: report 20140101" in shop.run("graph", "submit", "shop.report", "-j", "20140101").out
    assert re.search(r"^report +\{date\} +\d+ COMPLETED", shop.run("graph", "status", "shop").out, re.MULTILINE)
    assert "node 20140101 is ready" in shop.run("job", "why", nodes[-1]["job"]).out


def test_a_failed_parent_is_named_by_why_and_cancelled_nodes_fail(shop: DevProcess) -> None:
    failed = shop.run("graph", "submit", "shop.model", "-j", "20140102_bad", "--wait")
    assert failed.code == 1, failed
    assert "model 20140102_bad is UPSTREAM_FAILED" in failed.err
    explained = shop.run("graph", "why", "shop.model", "20140102_bad").out
    assert "default: 1 of 1 parents are missing" in explained
    assert "clean 20140102_bad: FAILED" in explained
    cancelled = shop.run("graph", "cancel", "shop.model", "-j", "20140102_bad", "--reason", "ann")
    assert (cancelled.code, cancelled.out) == (0, "  1 had ended before; nothing changed\n"), cancelled


def test_why_names_the_failed_root_and_not_only_the_parent(shop: DevProcess) -> None:
    (shop.folder / "chain.yaml").write_text(CHAIN)
    assert shop.run("deploy", "chain.yaml").code == 0
    failed = shop.run("graph", "submit", "chain.fourth", "-j", "7", "--wait")
    assert failed.code == 1, failed
    explained = shop.run("graph", "why", "chain.fourth", "7").out
    job = shop.run("graph", "why", "chain.first", "7", "-o", "json").json["job"].removeprefix("default.")
    assert "third 7: UPSTREAM_FAILED" in explained
    lines = [line.strip() for line in explained.partition("held up in the end by:")[2].splitlines() if line]
    assert lines[0].startswith("first 7: FAILED: "), explained
    assert "exit code 1" in lines[0]
    assert lines[1] == f"its job: `streamsched job why {job}`"
    assert "graph rerun" in lines[2]
    assert "held up" not in shop.run("graph", "why", "chain.first", "7").out
    assert "held up" not in shop.run("graph", "why", "chain.fourth", "8").out  # never asked for


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("shop.nothing", "-j", "1"), 3, "task 'nothing' was not found"),
        (("shop.report", "-j", "20140231"), 2, "must be a day as YYYYMMDD"),
        (("shop.report",), 2, "give job ids, or values of their components"),
        (("shop.report", "--range", "date=1..x"), 2, "ranges.date: must be from a day or whole number"),
        (("shop.report", "--all", "date"), 2, "has no autofill_values of 'date'"),
        (("nowhere.report", "-j", "1"), 3, "graph of app 'nowhere' was not found"),
    ],
)
def test_what_cannot_be_submitted_is_refused(shop: DevProcess, given: tuple[str, ...], code: int, said: str) -> None:
    refused = shop.run("graph", "submit", *given)
    assert (refused.code, said in refused.err.replace("\n", " ")) == (code, True), refused


def test_a_node_runs_again_with_what_depends_on_it(shop: DevProcess) -> None:
    assert shop.run("graph", "run", "shop.report", "20140105").code == 0
    refused = shop.run("graph", "rerun", "shop.clean", "20140105_a")
    assert refused.code == 7, refused
    assert "2 nodes that depend on it have run; `--downstream`" in refused.err.replace("\n", " ")
    planned = shop.run("graph", "rerun", "shop.clean", "20140105_a", "--downstream", "--dry-run")
    assert "runs again: 1 of clean" in planned.out
    assert "then: model (1 COMPLETED)" in planned.out
    done = shop.run("graph", "rerun", "shop.clean", "20140105_a", "--downstream", "--wait")
    assert done.code == 0, done
    rounds = {
        (each["task"], each["jobId"]): each["round"]
        for each in shop.run("graph", "show", "shop", "-o", "json").json
        if each["jobId"].startswith("20140105")
    }
    assert rounds["clean", "20140105_a"] == 2
    assert rounds["clean", "20140105_b"] == 1
    assert shop.run("graph", "submit", "-a", "shop.report", "-j", "20140105", "--wait").code == 0
    missing = shop.run("graph", "rerun", "shop.clean", "20140106_a", "--dry-run")
    assert "runs: 1 of clean" in missing.out


def test_pictures_of_tasks_and_of_a_nodes_ancestors(shop: DevProcess) -> None:
    assert 'n1 [label="model\\n{date}_{client}"' in shop.run("graph", "show", "shop", "-o", "dot").out
    assert shop.run("graph", "show", "shop", "-o", "svg").out.startswith("<svg ")
    node = ("graph", "show", "shop", "--task", "report", "-j", "20140107")
    assert '["model 20140107_a<br/>not asked for"]' in shop.run(*node, "-o", "mermaid").out
    assert "clean   20140107_b  not asked for  model 20140107_b" in shop.run(*node).out
    assert len(shop.run(*node, "-o", "json").json["nodes"]) == 5
    refused = shop.run("graph", "show", "shop", "-j", "20140107")
    assert "--job-id: is of a task" in refused.err


def test_one_node_runs_here(shop: DevProcess) -> None:
    done = shop.run("graph", "run", "shop.clean", "20140108_a", "--bypass")
    assert (done.code, done.out) == (0, "clean 20140108_a\n"), done
    assert "not asked for" in shop.run("graph", "why", "shop.clean", "20140108_a").out


def test_a_node_that_has_completed_does_not_run_again(shop: DevProcess) -> None:
    assert shop.run("graph", "run", "shop.clean", "20140109_a").code == 0
    again = shop.run("graph", "run", "shop.clean", "20140109_a")
    assert (again.code, again.out) == (
        0,
        "  COMPLETED already: clean 20140109_a\nsubmitted; 0 jobs were made\n"
        "it does not run again: `streamsched graph rerun shop.clean 20140109_a` runs it again\n",
    )
    assert "clean 20140109_a is COMPLETED" in again.err
    jobs = shop.run("job", "list", "--schedule", "shop.clean", "-o", "json").json
    assert sum("20140109_a" in each["id"] for each in jobs) == 1


def test_many_nodes_need_a_confirmation(shop: DevProcess) -> None:
    many = ("graph", "submit", "shop.report", "--range", "date=20140101..20151231")
    refused = shop.run(*many)
    assert refused.code == 7, refused
    assert "`--yes` runs them" in refused.err


def test_yaml_and_tasks_json_are_deployed(shop: DevProcess) -> None:
    deployed = shop.run("deploy", "rack.yaml")
    assert deployed.code == 0, deployed
    assert shop.run("graph", "submit", "rack.second", "-j", "1", "--wait").code == 0
    dry = shop.run("import", "stolos", "tasks.json", "--dry-run")
    assert dry.code == 0, dry
    assert "one complete group is enough" in dry.out.replace("\n", " ")
    imported = shop.run("import", "stolos", "tasks.json", "--app", "old")
    assert imported.code == 0, imported
    leaf = ("graph", "submit", "old.modelBuild", "-j", "client1_numberOfPageviews", "--wait")
    assert shop.run(*leaf).code == 0


def test_a_folder_of_tasks_with_slashes_in_their_names(shop: DevProcess) -> None:
    command = ("import", "stolos", "odd", "--app", "odd", "--component", "date=date")
    refused = shop.run(*command)
    assert refused.code != 0
    assert "odd b.depends_on.app_name[1]: there is no task 'gone'" in " ".join(refused.err.split())
    (shop.folder / "odd" / "wrong.yaml").unlink()
    imported = shop.run(*command)
    assert imported.code == 0, imported
    assert "'client' has no validator: any text is one" in imported.out
    done = shop.run("graph", "run", "odd.sales/clean", "20140101_a", "--bypass")
    assert (done.code, done.out) == (0, "sales/clean 20140101\n"), done
    assert shop.run("graph", "run", "odd.sales/clean", "20140101_a").code == 0
    assert "sales/clean" in shop.run("graph", "status", "odd").out
    assert "is COMPLETED" in shop.run("graph", "why", "odd.sales/clean", "20140101_a").out
    log = shop.run("run", "list", "-o", "json").json
    (run,) = [each["id"] for each in log if "sales-clean" in each["id"]]
    assert "sales/clean 20140101" in shop.run("run", "logs", run).out

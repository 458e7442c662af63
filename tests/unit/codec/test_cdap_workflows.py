"""Workflows of CDAP: what their nodes become."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.codec.schedules.schedule import app_from_json
from streamsched.domain.graph.graph import Graph
from tests.support.cdap_dump import action, condition, fork
from tests.support.cdap_shop import APP, answers, needs, on, only, read, refused


def test_a_fork_is_branches_that_are_joined() -> None:
    app = only(read(answers(report=[action("join"), fork([action("clean")], [action("sum up")]), action("join")])))

    assert needs(app) == {
        "report": None,
        "report-join": {"task": ["report"]},
        "report-clean": {"task": ["report-join"]},
        "report-sum-up": {"task": ["report-join"]},
        "report-join-2": {"task": ["report-clean", "report-sum-up"]},
    }
    assert [task.get("program") for task in app["tasks"].values()] == [None, "join", "clean", "sum-up", "join"]
    assert app["programs"]["report"]["type"] == "publish"


def test_a_fork_after_a_fork_waits_for_a_task_between_them() -> None:
    """So the edges are as many as the nodes, not their product."""
    wide = fork(*([action("join", node=f"n{number}")] for number in range(100)))

    app = only(read(answers(report=[wide, wide, wide])))

    edges = sum(len(each["task"]) for each in needs(app).values() if each)
    assert (len(app["tasks"]), edges) == (303, 500)


def test_a_condition_is_a_placeholder_that_chooses() -> None:
    found = read(
        answers(report=[condition("big", [action("join"), action("clean")], [action("sum up")]), action("clean")])
    )

    app = only(found)
    assert needs(app) == {
        "report": None,
        "report-big": {"task": ["report"]},
        "report-join": {"task": ["report-big"]},
        "report-clean": {"task": ["report-join"]},
        "report-sum-up": {"task": ["report-big"]},
        "report-join-2": {
            "branches": [
                {"task": ["report-big"], "ends": ["complete"]},
                {"task": ["report-clean", "report-sum-up"], "ends": ["complete", "skipped"]},
            ]
        },
        "report-clean-2": {"task": ["report-join-2"]},
    }
    assert app["tasks"]["report-big"]["exit_codes"] == {
        "11": ["report-join", "report-join-2"],
        "12": ["report-sum-up", "report-join-2"],
    }
    path = "namespaces/default/apps/shop/workflows/report.nodes[0]"
    assert refused(found)[path] == (
        "condition big of workflow report is Java code, here a placeholder that fails: exit 11 goes on with its "
        "if-branch, exit 12 with its else-branch"
    )


def test_a_custom_action_is_a_placeholder_and_the_rest_stays() -> None:
    found = read(answers(report=[action("join"), action("tidy", "CUSTOM_ACTION"), action("gone")]))

    assert list(only(found)["tasks"]) == ["report", "report-join", "report-tidy", "report-gone"]
    at = "namespaces/default/apps/shop/workflows/report.nodes"
    assert [refused(found)[f"{at}[{number}]"].partition(": ")[2] for number in (1, 2)] == [
        "it runs tidy, a custom_action of Java within CDAP",
        "it runs Spark program gone, which the application does not list",
    ]


def test_who_waits_for_a_workflow_that_is_a_graph_waits_for_its_end() -> None:
    given = answers(
        {(*APP, "schedules"): [on("report"), on("report", "bad", ("FAILED", "KILLED")), on("load", "plain")]}
    )

    app = only(read(given))

    tasks = needs(app)
    assert tasks["report-completed"] == {"task": ["report-clean", "report-again"]}
    assert tasks["report-failed"] == {"task": ["report-completed"], "ends": ["failed"]}
    waited = {
        name: (each["trigger"]["programId"]["program"], each["trigger"]["programStatuses"])
        for name, each in app["schedules"].items()
        if each["trigger"]["type"] == "PROGRAM_STATUS"
    }
    assert waited == {
        "after": ("report-completed", ["COMPLETED"]),
        "bad": ("report-failed", ["COMPLETED"]),
        "plain": ("load", ["COMPLETED"]),
    }


def test_a_workflow_of_one_program_is_a_graph_when_something_waits_for_the_program() -> None:
    """Else the end of the workflow's run would not be an end of the program's."""
    given = answers({(*APP, "schedules"): [on("join")]})

    assert needs(only(read(given)))["load-join"] == {"task": ["load"]}
    assert only(read(given))["programs"]["load"]["type"] == "publish"


def test_tasks_have_the_arguments_and_the_limit_of_the_workflow() -> None:
    schedule = on("load", "hourly") | {
        "program": {"programName": "report", "programType": "WORKFLOW"},
        "properties": {"day": "x"},
        "constraints": [{"type": "CONCURRENCY", "maxConcurrency": 3, "waitUntilMet": False}],
    }
    given = answers({(*APP, "schedules"): [schedule], (*APP, "workflows", "report", "preferences"): {"owner": "me"}})

    tasks = only(read(given))["tasks"]

    assert {json.dumps(each["schedule"]) for each in tasks.values() if "program" in each} == {
        json.dumps(
            {
                "properties": {"owner": "me", "day": "x"},
                "constraints": [{"type": "CONCURRENCY", "maxConcurrency": 3, "of": "schedule", "waitUntilMet": True}],
            }
        )
    }


def test_a_workflow_and_a_program_of_one_name_are_two_programs() -> None:
    given = answers()
    given[APP]["programs"].append({"type": "Workflow", "name": "join"})
    given[*APP, "workflows", "join"] = {"nodes": [action("join"), action("clean")]}
    given[*APP, "schedules"] = [on("load") | {"program": {"programName": "join", "programType": "WORKFLOW"}}]

    app = only(read(given))

    assert (app["programs"]["join"]["type"], app["programs"]["join-2"]["type"]) == ("publish", "spark")
    assert app["tasks"]["join-join"]["program"] == "join-2"


def test_a_graph_whose_name_another_schedule_has_gets_another() -> None:
    """The schedule of a graph's name must start it."""
    given = answers({(*APP, "schedules"): [on("load", "report"), on("load", "load")]})

    app = only(read(given))

    assert (app["schedules"]["report"]["program"], "report-2" in app["tasks"]) == ("load", True)
    assert app["schedules"]["report-2"]["program"] == "report-2"


def deep(levels: int) -> list[Any]:
    nodes: list[Any] = [action("join")]
    for _ in range(levels):
        nodes = [fork(nodes, [action("clean")])]
    return nodes


def test_forks_within_forks() -> None:
    app = only(read(answers(report=deep(50))))

    assert len(app["tasks"]) == 52
    assert "report-2" not in app["programs"]


def test_forks_that_are_too_deep_are_a_placeholder() -> None:
    found = read(answers(report=deep(101)))

    assert "tasks" not in only(found)
    assert "more than 100 deep" in " ".join(refused(found).values())
    assert only(found)["programs"]["report"]["type"] == "bash"


def test_a_workflow_with_1000_nodes() -> None:
    app = only(read(answers(report=[action("join", node=f"n{number}") for number in range(1000)])))

    assert len(app["tasks"]) == 1001
    assert len(Graph(app_from_json(app).tasks).order) == 1001


@settings(max_examples=100)
@given(
    st.recursive(
        st.builds(
            action, st.sampled_from(["join", "clean", "sum up", "gone"]), st.sampled_from(["SPARK", "CUSTOM_ACTION"])
        ),
        lambda inner: (
            st.builds(lambda branches: fork(*branches), st.lists(st.lists(inner, max_size=3), max_size=3))
            | st.builds(condition, st.text(max_size=3), st.lists(inner, max_size=3), st.lists(inner, max_size=3))
        ),
        max_leaves=20,
    )
)
def test_each_workflow_is_a_graph_with_a_task_for_each_action(node: Any) -> None:
    found = read(answers({(*APP, "schedules"): [on("report")]}, report=[node, action("join")]))

    def actions(value: Any) -> int:
        match value:
            case {"nodeType": "ACTION"}:
                return 1
            case {"nodeType": "FORK", "branches": branches}:
                return sum(actions(each) for branch in branches for each in branch)
            case {"ifBranch": first, "elseBranch": second}:
                return sum(actions(each) for each in (*first, *second))
            case _:
                return 0

    app = only(found)
    own = [
        name
        for name, task in app["tasks"].items()
        if "program" in task and "exit_codes" not in task and app["programs"][task["program"]]["type"] != "publish"
    ]
    assert len(own) == actions(node) + 1

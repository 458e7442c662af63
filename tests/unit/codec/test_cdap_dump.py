"""A dump of CDAP: what its applications become, and answers that are odd."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.codec.cdap.dump.dump import DumpRequest, ImportedDump, import_dump
from streamsched.codec.moving.draft import NoteKind
from streamsched.codec.moving.past_run import past_run_from_json, past_run_to_json
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.graph.graph import Graph
from tests.support.cdap_dump import Answers, SavedAnswers, action, application, condition, dump, fork, record

APP = ("namespaces", "default", "apps", "shop")


def answers(more: Mapping[tuple[str, ...], Any] | None = None, **nodes: Any) -> Answers:
    """One application `shop`; workflows with other nodes by name."""
    found: Answers = {
        ("namespaces",): [{"name": "default"}],
        ("namespaces", "default", "apps"): [{"name": "shop"}],
        **application("default", "shop", 1),
        (*APP, "schedules"): [],
    }
    for name, each in nodes.items():
        found[*APP, "workflows", name] = {"name": name, "nodes": each}
    return {**found, **(more or {})}


def read(given: Answers, **request: Any) -> ImportedDump:
    """The import; each of its apps is accepted as an app file is."""
    found = import_dump(SavedAnswers(given), DumpRequest(**request))
    for app in found.imported.apps:
        app_from_json(app)
    for run in found.runs:
        assert past_run_from_json(json.loads(json.dumps(past_run_to_json(run)))) == run
    return found


def only(found: ImportedDump) -> dict[str, Any]:
    (app,) = found.imported.apps
    return app


def refused(found: ImportedDump) -> dict[str, str]:
    return {note.path: note.text for note in found.imported.noted(NoteKind.REFUSED)}


def needs(app: dict[str, Any]) -> dict[str, Any]:
    return {name: task.get("depends_on") for name, task in app["tasks"].items()}


def on(
    program: str, name: str = "after", statuses: tuple[str, ...] = ("COMPLETED",), app: str = "shop"
) -> dict[str, Any]:
    return {
        "namespace": "default",
        "application": "shop",
        "name": name,
        "program": {"programName": "load", "programType": "WORKFLOW"},
        "trigger": {
            "type": "PROGRAM_STATUS",
            "programId": {"namespace": "default", "application": app, "type": "Workflow", "program": program},
            "programStatuses": list(statuses),
        },
    }


def test_a_dump_with_200_schedules() -> None:
    found = read(dump())

    assert found.summary == "cdap apps 40 programs 214 schedules 200 preferences 24 runs 1200 refused 19"
    assert sorted({note.text.partition(":")[0] for note in found.imported.noted(NoteKind.REFUSED)}) == [
        "of MapReduce program count",
        "program lookup of type service",
        "the preference is a setting of CDAP itself, such as a profile or a size",
    ]


def test_a_spark_program_has_its_class_and_its_jar() -> None:
    found = read(answers(), jars="https://repo/jars/")

    assert only(found)["programs"]["join"] == {
        "type": "spark",
        "main": "https://repo/jars/shop-1.1.0.jar",
        "main_class": "com.acme.Join",
        "driver": {"cores": 1, "memory": "1024m"},
        "executors": {"cores": 2, "memory": "2048m"},
    }
    assert only(found)["programs"]["load"] == only(found)["programs"]["join"]


def test_a_mapreduce_program_is_a_command() -> None:
    given = answers()
    given[APP]["programs"].append({"type": "Mapreduce", "name": "count"})
    given[*APP, "mapreduce", "count"] = {"className": "com.acme.Count", "mapperResources": {"memoryMB": 512}}

    program = only(read(given, jars="/srv/our jars"))["programs"]["count"]

    command = "exec hadoop jar '/srv/our jars/shop-1.1.0.jar' com.acme.Count -Dmapreduce.map.memory.mb=512"
    assert program == {"type": "bash", "command": command}


@pytest.mark.parametrize(
    ("detail", "specification", "why"),
    [
        (
            {"artifact": {"name": "cdap-data-pipeline", "version": "6.9.0", "scope": "SYSTEM"}},
            None,
            "part of CDAP itself",
        ),
        ({}, {"className": "io.cdap.cdap.etl.spark.batch.ETLSpark", "mainClassName": "a.B"}, "part of CDAP itself"),
        ({}, {}, "has no specification"),
        ({}, {"mainClassName": "no class; rm -rf /"}, "names no class"),
        ({"artifact": {"name": "../../etc", "version": "1"}}, None, "has no jar"),
        ({"artifact": 7}, None, "has no jar"),
    ],
)
def test_a_program_that_cannot_run_is_a_placeholder_that_says_why(
    detail: dict[str, Any], specification: Any, why: str
) -> None:
    given = answers()
    given[APP] |= detail
    if specification is not None:
        given[*APP, "spark", "join"] = specification

    found = read(given)

    program = only(found)["programs"]["join"]
    assert (program["type"], why in program["command"]) == ("bash", True)
    assert why in refused(found)["namespaces/default/apps/shop/spark/join"]


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


def test_preferences_go_where_what_is_nearer_to_a_run_wins() -> None:
    given = answers(
        {
            ("preferences",): {"a": "installation", "b": "installation", "c": "installation", "d": "installation"},
            ("namespaces", "default", "preferences"): {"b": "namespace", "c": "namespace", "d": "namespace"},
            (*APP, "preferences"): {"c": "app", "d": "app", "e": "app"},
            (*APP, "workflows", "load", "preferences"): {"d": "program"},
            (*APP, "schedules"): [on("report", "one") | {"properties": {"c": "schedule"}}],
        }
    )

    found = read(given)

    assert found.preferences == {"default": {"a": "installation", "b": "namespace", "c": "namespace", "d": "namespace"}}
    assert only(found)["programs"]["load"]["defaults"] == {"c": "app", "d": "program", "e": "app"}
    assert only(found)["programs"]["join"]["defaults"] == {"c": "app", "d": "app", "e": "app"}
    assert only(found)["schedules"]["one"]["properties"] == {"c": "schedule", "d": "program"}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("n", 7, "is no text"),
        ("system.resources.memory", "1", "is a setting of CDAP itself"),
        ("key.day", "1", "would hide it"),
        ("logical.start.time", "1", "would hide it"),
        ("n", "x" * 10_000_000, "must have at most 32768 characters"),
        ("n", "a\0b", "NUL"),
        ("", "x", "empty name"),
    ],
)
def test_an_odd_preference_does_not_hold_up_others(name: str, value: Any, why: str) -> None:
    found = read(answers({("namespaces", "default", "preferences"): {name: value, "good": "1"}}))

    assert found.preferences == {"default": {"good": "1"}}
    (text,) = [each for path, each in refused(found).items() if "preferences" in path]
    assert why in text
    assert len(text) < 400


def test_names_that_ids_cannot_have_are_changed_everywhere() -> None:
    given = answers({("namespaces", "default", "apps"): [{"name": "my.shop 1"}]})
    for path in [each for each in given if each[:4] == APP]:
        given["namespaces", "default", "apps", "my.shop 1", *path[4:]] = given.pop(path)
    at = ("namespaces", "default", "apps", "my.shop 1")
    given[at]["programs"] += [{"type": "Workflow", "name": "a.b"}, {"type": "Workflow", "name": "a b"}]
    given[*at, "workflows", "a.b"] = given[*at, "workflows", "a b"] = {"nodes": [action("join")]}
    schedule = on("a b", "each. day ü", app="my.shop 1") | {"application": "my.shop 1"}
    given[*at, "schedules"] = [schedule | {"program": {"programName": "a.b", "programType": "WORKFLOW"}}]

    app = only(read(given))

    assert (app["application"], {"a-b", "a-b-2"} <= set(app["programs"])) == ("my-shop-1", True)
    (name,) = [each for each in app["schedules"] if each.startswith("each")]
    assert name == "each. day ü"
    assert app["schedules"][name]["program"] == "a-b"
    assert app["schedules"][name]["trigger"]["programId"]["program"] == "a-b-2"


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


def test_runs_that_have_ended_are_taken_the_newest_of_each_program() -> None:
    given = answers({(*APP, "workflows", "load", "runs"): [record(f"r{number}", number) for number in range(9)]})
    given[*APP, "spark", "join", "runs"] = [
        *(record(status, 1, status=status) for status in ("RUNNING", "REJECTED", "PENDING", "ODD")),
        {"runid": "x"},
        7,
        record("bad", 3) | {"end": "soon"},
        record("args", 4) | {"properties": {"runtimeArgs": "{no json"}},
    ]

    found = read(given, runs=5)

    load = [run for run in found.runs if run.program.name == "load"]
    assert [run.id for run in load] == [f"cdap-r{number}-1f2e-11ee" for number in range(5)]
    assert [run.state.value for run in load] == ["COMPLETED", "COMPLETED", "FAILED", "KILLED", "COMPLETED"]
    assert load[0].arguments == {"logical.start.time": "1700000000000", "day": "x"}
    assert [run.id for run in found.runs if run.program.name == "join"] == ["cdap-REJECTED-1f2e-11ee"]
    assert len(read(given, runs=0).runs) == 0


@pytest.mark.parametrize("answer", [None, [], {}, "x", 7, [7], [{"name": ""}], [{"name": "a b"}], [{"name": ["x"]}]])
def test_odd_namespaces(answer: Any) -> None:
    with suppress(InvalidError):
        found = read({("namespaces",): answer})
        assert found.imported.apps == ()
        assert refused(found)


def test_a_part_that_cannot_be_read_does_not_hold_up_others() -> None:
    class Broken(SavedAnswers):
        def read(self, *path: str, most: int | None = None) -> Any:
            if path[-1] in ("report", "clean", "preferences", "runs") or path[3:4] == ("gone",):
                raise DecodeError("/".join(path), "the server answers 500")
            return super().read(*path, most=most)

    given = answers({("namespaces", "default", "apps"): [{"name": "gone"}, {"name": "shop"}]})
    found = import_dump(Broken(given), DumpRequest())

    gone, shop = found.imported.apps
    assert (gone["programs"], gone["schedules"]) == ({}, {})
    assert shop["programs"]["join"]["type"] == "spark"
    assert refused(found)["namespaces/default/apps/gone"] == "its programs are left out: the server answers 500"


_PATHS = sorted(answers({(*APP, "workflows", "load", "runs"): [record("r", 0)], (*APP, "schedules"): [on("load")]}))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ("name", "nodes", "nodeType", "branches", "program", "programName", "type", "programs", "artifact")
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(_PATHS[1:]), _JSON, max_size=4))
def test_whatever_the_answers_are_the_apps_are_valid(odd: dict[tuple[str, ...], Any]) -> None:
    """One odd answer, or four, in the place of good ones."""
    given = answers({(*APP, "workflows", "load", "runs"): [record("r", 0)], (*APP, "schedules"): [on("load")]})

    read({**given, **odd})


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

"""Graphs of tasks: the documented cases, and what is refused and where."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.codec.graph.task import tasks_from_json
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.task import FunctionPair


def _graph(tasks: dict[str, Any], **functions: FunctionPair) -> Graph:
    return Graph(
        tasks_from_json(tasks), functions=functions, validities={"odd": lambda _, parts: parts["n"] in "13579"}
    )


def _parents(graph: Graph, task: str, job_id: str) -> dict[str, list[str]]:
    return {group.name: [str(each) for each in group.parents] for group in graph.parents(NodeId(task, job_id))}


def _children(graph: Graph, task: str, job_id: str) -> list[str]:
    return [str(child) for child, _ in graph.children(NodeId(task, job_id))]


PREPROCESS = {"job_id": "{date}_{client_id}"}


def test_one_parent_gives_several_children() -> None:
    graph = _graph(
        {
            "preprocess": PREPROCESS,
            "model": {
                "job_id": "{date}_{client_id}_{target}",
                "depends_on": {"task": ["preprocess"], "target": ["revenue", "views"]},
            },
        }
    )
    assert _children(graph, "preprocess", "20140101_1234") == [
        "model 20140101_1234_revenue",
        "model 20140101_1234_views",
    ]
    assert _parents(graph, "model", "20140101_1234_views") == {"default": ["preprocess 20140101_1234"]}
    assert _parents(graph, "model", "20140101_1234_other") == {}


def test_several_parents_reduce_to_one_child() -> None:
    graph = _graph(
        {
            "preprocess": PREPROCESS,
            "model": {
                "job_id": "{client_id}_{target}",
                "depends_on": {"task": ["preprocess"], "target": ["revenue"], "date": [20140601, 20140501]},
            },
        }
    )
    assert _parents(graph, "model", "c1_revenue") == {"default": ["preprocess 20140601_c1", "preprocess 20140501_c1"]}
    assert _children(graph, "preprocess", "20140601_c1") == ["model c1_revenue"]
    assert _children(graph, "preprocess", "20140602_c1") == []


def test_all_is_what_the_parent_fills_in_and_ranges_exclude_their_end() -> None:
    graph = _graph(
        {
            "part": {"job_id": "{day}_{n}", "autofill_values": {"n": "0:10:4"}},
            "whole": {"job_id": "{day}", "depends_on": {"task": ["part"], "n": "all"}},
        }
    )
    assert _parents(graph, "whole", "d") == {"default": ["part d_0", "part d_4", "part d_8"]}


def test_a_component_that_only_the_child_has_is_filled_in() -> None:
    graph = _graph(
        {
            "a": {"job_id": "{day}"},
            "b": {"job_id": "{day}_{n}", "autofill_values": {"n": "3"}, "depends_on": {"task": ["a"]}},
        }
    )
    assert _children(graph, "a", "d") == ["b d_0", "b d_1", "b d_2"]
    assert _parents(graph, "b", "d_7") == {}


def test_the_last_component_may_hold_the_delimiter() -> None:
    graph = _graph({"a": {"job_id": "{day}_{name}"}, "b": {"job_id": "{name}_{day}", "depends_on": {"task": ["a"]}}})
    assert JobTemplate.parse("{day}_{name}").parts("d_x_y") == ("d", "x_y")
    assert _children(graph, "a", "d_x_y") == [], "b cannot have a name with the delimiter"
    assert _children(graph, "a", "d_x") == ["b x_d"]


def test_a_pair_of_functions_is_checked_whenever_it_is_called() -> None:
    tasks = {
        "day": {"job_id": "{n}"},
        "next": {"job_id": "{n}", "depends_on": {"task": ["day"], "function": "before"}},
    }
    good = FunctionPair(lambda child: [str(int(child) - 1)], lambda parent: [str(int(parent) + 1)])
    graph = _graph(tasks, before=good)
    assert _parents(graph, "next", "7") == {"default": ["day 6"]}
    assert _children(graph, "day", "6") == ["next 7"]
    bad = _graph(tasks, before=FunctionPair(lambda child: [str(int(child) - 1)], lambda parent: [parent]))
    with pytest.raises(InvalidError, match="names '6', which does not name it in return"):
        bad.parents(NodeId("next", "7"))
    with pytest.raises(InvalidError, match=r"failed: ValueError"):
        graph.parents(NodeId("next", "x"))


def test_validity_is_one_of_the_values_or_the_function() -> None:
    graph = _graph({"a": {"job_id": "{n}", "valid_if_or": {"n": ["2"], "_func": "odd"}}})
    assert [graph.is_valid(NodeId("a", each)) for each in "123456"] == [True, True, True, False, True, False]


REFUSED = [
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["z"]}}}, "$.tasks.a.depends_on.task[0]", "no task 'z'"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["a"]}}}, "$.tasks.a.depends_on", "a needs a"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": "b"}}}, "$.tasks.a.depends_on.task", "must be a list"),
    ({"a": {"job_id": "{d}", "depends_on": {"g": {"d": [1]}}}}, "$.tasks.a.depends_on.g.task", "is missing"),
    ({"a": {"job_id": "{d}", "depends_on": {"a": {"task": ["a"]}}}}, "$.tasks.a.depends_on.a", "name of a task"),
    ({"a": {"job_id": "{d}", "depends_on": {"g": []}}}, "$.tasks.a.depends_on.g", "is empty"),
    ({"a": {"job_id": "{d}", "depends_on": {"g": "x"}}}, "$.tasks.a.depends_on.g", "must be a group"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "d": [1, 1]}}}, "$.tasks.a.depends_on.d", "names '1' twice"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b", "b"]}}}, "$.tasks.a.depends_on.task", "names 'b' twice"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "d": "some"}}}, "$.tasks.a.depends_on.d", 'text "all"'),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "d": "all"}}}, "$.tasks.a.depends_on.d", "no autofill"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "d": []}}}, "$.tasks.a.depends_on.d", "is empty"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "x": [1]}}}, "$.tasks.a.depends_on.x", "neither"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "d": [True]}}}, "$.tasks.a.depends_on.d[0]", "boolean"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "d": [1.5]}}}, "$.tasks.a.depends_on.d[0]", "whole number"),
    ({"a": {"job_id": "{d}_{e}", "depends_on": {"task": ["b"]}}}, "$.tasks.a.depends_on", "for which 'e'"),
    ({"a": {"job_id": "{e}", "depends_on": {"task": ["b"], "e": [1]}}}, "$.tasks.a.depends_on", "which 'd'"),
    (
        {"a": {"job_id": "{d}", "depends_on": {"g": [{"task": ["b"], "d": [1]}, {"task": ["c"]}]}}},
        "$.tasks.a.depends_on.g",
        "other values of 'd'",
    ),
    (
        {"a": {"job_id": "{d}", "autofill_values": {"d": [2]}, "depends_on": {"task": ["b"], "d": [1]}}},
        "$.tasks.a.depends_on",
        "applies to no job id",
    ),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "job_id": []}}}, "$.tasks.a.depends_on.job_id", "is empty"),
    ({"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "job_id": [""]}}}, "$.tasks.a.depends_on.job_id[0]", "fit"),
    (
        {"a": {"job_id": "{d}", "depends_on": {"task": ["b"], "function": "f"}}},
        "$.tasks.a.depends_on.function",
        "no pair",
    ),
    ({"a": {"job_id": "{d}", "autofill_values": {"d": 3}}}, "$.tasks.a.autofill_values.d", "must be a list"),
    ({"a": {"job_id": "{d}", "autofill_values": {"d": "x:y"}}}, "$.tasks.a.autofill_values.d", "a range such as"),
    ({"a": {"job_id": "{d}", "autofill_values": {"d": "0:5:0"}}}, "$.tasks.a.autofill_values.d", "step 0"),
    ({"a": {"job_id": "{d}", "autofill_values": {"d": "5:0"}}}, "$.tasks.a.autofill_values.d", "without values"),
    ({"a": {"job_id": "{d}", "autofill_values": {"d": "999999999999999999"}}}, "$.tasks.a.autofill_values.d", "100000"),
    ({"a": {"job_id": "{d}", "autofill_values": {"x": [1]}}}, "$.tasks.a.autofill_values.x", "no component"),
    ({"a": {"job_id": "{d}", "valid_if_or": {"x": [1]}}}, "$.tasks.a.valid_if_or.x", "no component"),
    ({"a": {"job_id": "{d}", "valid_if_or": {"d": "1"}}}, "$.tasks.a.valid_if_or.d", "must be a list"),
    ({"a": {"job_id": "{d}", "valid_if_or": {"_func": "f"}}}, "$.tasks.a.valid_if_or._func", "no function 'f'"),
    ({"a": {"job_id": "{d}", "valid_if_or": {}}}, "$.tasks.a.valid_if_or", "every job id would be skipped"),
    ({"a": {"job_id": "d"}}, "$.tasks.a.job_id", "must be components"),
    ({"a": {"job_id": "{d}-{e}"}}, "$.tasks.a.job_id", "must be components"),
    ({"a": {"job_id": "{d}_{d}"}}, "$.tasks.a.job_id", "names component 'd' twice"),
    ({"a": {"job_id": "{task}_{d}"}}, "$.tasks.a.job_id", "another meaning"),
    ({"a": {"job_id": "{d}", "delimiter": "ab"}}, "$.tasks.a.job_id", "one character"),
    ({"a": {"job_id": "{d}", "colour": 1}}, "$.tasks.a.colour", "unknown field"),
    (
        {"a": {"job_id": "{d}", "components": {"d": "date"}, "autofill_values": {"d": [20140231]}}},
        "$.tasks.a.autofill_values.d[0]",
        "YYYYMMDD",
    ),
    (
        {"a": {"job_id": "{d}_{e}", "autofill_values": {"d": ["x_y"]}}},
        "$.tasks.a.autofill_values.d[0]",
        "delimiter",
    ),
]


@pytest.mark.parametrize(("tasks", "path", "reason"), REFUSED, ids=[f"{path}-{reason}" for _, path, reason in REFUSED])
def test_what_cannot_be_meant_is_refused_with_its_path(tasks: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(InvalidError) as caught:
        _graph({"b": {"job_id": "{d}"}, "c": {"job_id": "{d}"}, **tasks})
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_a_circle_of_several_tasks_is_named() -> None:
    def on(name: str) -> dict[str, Any]:
        return {"job_id": "{d}", "depends_on": {"task": [name]}}

    with pytest.raises(InvalidError, match=r"is a circle: . needs . needs . needs ."):
        _graph({"a": on("b"), "b": on("c"), "c": on("a")})


def test_too_many_parents_of_one_job_id_are_refused_before_they_are_made() -> None:
    with pytest.raises(InvalidError, match="at most 100000 parents of one job id but has 1000000"):
        _graph(
            {
                "a": {"job_id": "{x}_{y}_{z}", "autofill_values": dict.fromkeys("xyz", "100")},
                "b": {"job_id": "{d}", "depends_on": {"task": ["a"], "x": "all", "y": "all", "z": "all", "d": [1]}},
            }
        )


@pytest.mark.parametrize("job_id", ["", "_", "20140101", "20140231_1", "20140101_01", "20140101_x", "2014_1", "a\0_1"])
def test_a_job_id_that_does_not_fit_is_refused(job_id: str) -> None:
    graph = _graph({"a": {"job_id": "{d}_{n}", "components": {"d": "date", "n": "integer"}}})
    with pytest.raises(InvalidError, match="does not fit the template"):
        graph.check(NodeId("a", job_id))
    with pytest.raises(NotFoundError):
        graph.check(NodeId("b", job_id))

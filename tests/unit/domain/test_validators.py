"""Validators of the components of job ids: they refuse values, and convert what people write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.graph.task import task_to_json, tasks_from_json
from streamsched.domain.errors import InvalidDefinitionError, InvalidError, NotFoundError
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.selection import select_job_ids
from streamsched.graph.functions import GraphFunctions


def day(text: str) -> int:
    """As the validators of Stolos: raises, or gives the number of a day."""
    return int(date.fromisoformat(text).strftime("%Y%m%d"))


def client(text: str) -> object:
    return text.strip().lower() if text.strip().isalnum() else None


VALIDATIONS: dict[str, Callable[[str], object]] = {"date": day, "client": client, "number": int}
TASKS = {
    "clean": {"job_id": "{date}_{client}", "validations": "shop"},
    "report": {
        "job_id": "{date}",
        "validations": "shop",
        "depends_on": {"task": ["clean"], "client": ["a", "b"]},
    },
}


def functions(**loaded: Any) -> GraphFunctions:
    return GraphFunctions({}, {}, {name: lambda found=found: found for name, found in loaded.items()})


def graph(tasks: dict[str, Any] | None = None, **loaded: Any) -> Graph:
    return functions(**{"shop": VALIDATIONS, **loaded}).graph(tasks_from_json(tasks or TASKS))


@pytest.mark.parametrize(
    ("given", "meant"), [("20140101_a", "20140101_a"), ("2014-01-01_A", "20140101_a"), ("20140101_ b ", "20140101_b")]
)
def test_what_people_write_becomes_the_job_id_that_is_meant(given: str, meant: str) -> None:
    found = graph().canonical(NodeId("clean", given))
    assert found == NodeId("clean", meant)
    assert [str(child) for child, _ in graph().children(found)] == ["report 20140101"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("20141301_a", "the validator of 'date' refuses '20141301': ValueError"),
        ("20140101_a.b", "the validator of 'client' refuses 'a.b'"),
        ("20140101", "does not fit the template"),
        ("_a", "'date' is empty"),
    ],
)
def test_what_a_validator_refuses_has_its_reason(given: str, why: str) -> None:
    with pytest.raises(InvalidError, match=why) as caught:
        graph().canonical(NodeId("clean", given), "$.job_ids")
    assert caught.value.path == "$.job_ids"


def test_a_job_id_that_is_derived_has_no_other_spelling() -> None:
    found = graph()
    with pytest.raises(InvalidError, match="must be '20140101', as its validator writes '2014-01-01'"):
        found.check(NodeId("report", "2014-01-01"))
    tasks = {**TASKS, "wide": {"job_id": "{day}_{client}"}, "narrow": {**TASKS["clean"], "job_id": "{client}"}}
    tasks["narrow"]["depends_on"] = {"task": ["wide"], "day": [1]}
    found = graph(tasks)
    assert [str(child) for child, _ in found.children(NodeId("wide", "1_a"))] == ["narrow a"]
    assert found.children(NodeId("wide", "1_A")) == (), "its validator would write another"


def test_lists_of_a_definition_are_checked() -> None:
    tasks = {**TASKS, "report": {**TASKS["report"], "depends_on": {"task": ["clean"], "client": ["a", "B"]}}}
    with pytest.raises(InvalidDefinitionError, match="must be 'b', as its validator writes 'B'") as caught:
        graph(tasks)
    assert caught.value.path == "$.tasks.report.depends_on.client[1]"


def test_values_are_converted_before_they_are_combined() -> None:
    found = graph().task("clean")
    assert select_job_ids(found, {"date": ["2014-01-01", "20140101"], "client": ["A"]}) == ("20140101_a",)


@pytest.mark.parametrize(
    ("validator", "why"),
    [
        (lambda text: int(date.fromisoformat(text).strftime("%j")), "the validator of 'date' refuses '1'"),
        (lambda text: text + "x", "must be '20140101xx', as its validator writes '20140101x'"),
        (lambda text: "2014_01", "'date' holds the delimiter '_'"),
        (lambda text: "", "'date' is empty"),
        (lambda text: False, "refuses '20140101'"),
    ],
)
def test_a_validator_converts_what_it_returns_to_itself(validator: Callable[[str], object], why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        graph(shop={"date": validator}).canonical(NodeId("clean", "20140101_a"))


def test_true_leaves_a_value_as_it_is() -> None:
    assert graph(shop={"client": str.isalpha}).canonical(NodeId("clean", "x_A")) == NodeId("clean", "x_A")
    with pytest.raises(InvalidError, match="refuses '1'"):
        graph(shop={"client": str.isalpha}).canonical(NodeId("clean", "x_1"))


@pytest.mark.parametrize(
    ("loaded", "why"),
    [
        ({"rack": VALIDATIONS}, "no 'shop' of group streamsched.job_id_validations is installed here .known: rack."),
        ({"shop": 1}, "'shop' must be functions by component, in a dict"),
        ({"shop": {"date": 1}}, "'shop' must be functions by component, in a dict"),
    ],
)
def test_validators_that_are_not_there_are_refused(loaded: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=why) as caught:
        functions(**loaded).graph(tasks_from_json(TASKS))
    assert caught.value.path == "$.tasks.clean.validations"


def test_a_module_of_stolos_is_taken_as_it_is() -> None:
    class Module:
        JOB_ID_VALIDATIONS = VALIDATIONS

    assert set(functions(shop=Module).validators("shop", "$")) == set(VALIDATIONS)


def test_a_task_keeps_the_name_over_the_wire() -> None:
    (task, _) = tasks_from_json(TASKS)
    assert task_to_json(task)["validations"] == "shop"
    assert tasks_from_json({"clean": task_to_json(task)}) == (task,)
    (bound, _) = functions(shop=VALIDATIONS).with_validators(tasks_from_json(TASKS))
    assert bound == task, "the functions are no part of the definition"
    with pytest.raises(NotFoundError):
        graph().canonical(NodeId("gone", "1"))


@given(
    st.lists(st.integers(-(10**30), 10**30).map(str) | st.sampled_from(["01", "+1", " 1", "1 ", "-0", "x"]), min_size=2)
)
def test_the_meant_job_id_is_its_own_meaning(values: list[str]) -> None:
    template = JobTemplate(("a", "number"), validations="n", validators={"a": int, "number": int})
    try:
        meant = template.canonical("_".join(values[:2]))
    except InvalidError:
        assert any(not _is_number(each) for each in values[:2])
        return
    assert template.canonical(meant) == meant
    assert template.parts(meant) == tuple(str(int(each)) for each in values[:2])


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True

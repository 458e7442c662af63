"""An imported DAG ends as it does in Airflow: trigger rules, branches and conditions against a naive model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.schedules.schedule import app_from_json
from streamsched.dialects.airflow.codec.dag_file import dags_from_source
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.node import NodeFact, NodeState
from streamsched.domain.graph.task import NodeId
from tests.support.airflow_model import RULES, End, ModelTask, below, ends
from tests.support.graph_world import GraphWorld

DUE = "20240102T000000"
SHOWN: dict[NodeState, End] = {
    NodeState.COMPLETED: "success",
    NodeState.FAILED: "failed",
    NodeState.UPSTREAM_FAILED: "upstream_failed",
    NodeState.SKIPPED: "skipped",
    NodeState.UPSTREAM_SKIPPED: "skipped",
}
#: With these rules a task may run before a branch beside it has ended: a race, in Airflow too.
_EARLY = ("one_success", "one_failed", "one_done", "always")


ENDS: list[End] = ["success", "success", "failed", "skipped"]


@st.composite
def dags(draw: st.DrawFn) -> list[ModelTask]:
    """Up to seven tasks in topological order, some of which choose."""
    tasks: list[ModelTask] = []
    count = draw(st.integers(2, 7))
    before = [tuple(f"t{each}" for each in range(number) if draw(st.booleans())) for number in range(count)]
    choosing = {number for number in range(count) if draw(st.integers(0, 3)) == 0}
    for number in range(count):
        chosen_by = any(f"t{each}" in before[number] for each in choosing) or any(
            _above(f"t{each}", number, before) for each in choosing
        )
        rules = [rule for rule in RULES if not chosen_by or rule not in _EARLY]
        rule, end = draw(st.sampled_from(rules)), draw(st.sampled_from(ENDS))
        follows, short = None, None
        if number in choosing:
            end = "success"
            children = [f"t{each}" for each in range(count) if f"t{number}" in before[each]]
            if draw(st.booleans()):
                short = draw(st.booleans())
            elif children:
                follows = tuple(draw(st.lists(st.sampled_from(children), unique=True)))
        tasks.append(ModelTask(f"t{number}", before[number], rule, end, follows, short))
    return tasks


def _above(name: str, number: int, before: list[tuple[str, ...]]) -> bool:
    waiting, seen = list(before[number]), set[str]()
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += before[int(each[1:])]
    return name in seen


def source_of(tasks: list[ModelTask]) -> str:
    """A file of Airflow with these tasks."""
    lines = ["from airflow.decorators import dag, task", "@dag(schedule='@daily')", "def d():"]
    for each in tasks:
        rule = f"trigger_rule='{each.rule}'"
        if each.follows is not None or each.short is not None:
            kind = "branch" if each.short is None else "short_circuit"
            returned = list(each.follows or ()) if each.short is None else each.short
            lines += [f"    @task.{kind}({rule})", f"    def {each.name}():", f"        return {returned!r}"]
            lines += [f"    x{each.name} = {each.name}()"]
        else:
            lines += [f"    x{each.name} = BashOperator(task_id='{each.name}', bash_command='true', {rule})"]
    lines += [f"    x{parent} >> x{each.name}" for each in tasks for parent in each.before]
    return "\n".join(lines)


def imported(tasks: list[ModelTask], pick: int) -> dict[str, End]:
    """The ends of the nodes of one time, with jobs and reports in some order."""
    [document] = dags_from_source(source_of(tasks).encode(), namespace="default").apps
    app = app_from_json(document)
    world = GraphWorld(Graph(app.tasks))
    world.arrive(NodeId("d", DUE))
    own = {each.name: each for each in tasks}
    commands = {name: each["command"] for name, each in document["programs"].items() if "command" in each}
    while True:
        if unreported := world.unreported:
            world.report(unreported[pick % len(unreported)])
        elif queued := world.in_state(NodeState.QUEUED):
            node = queued[pick % len(queued)]
            task = own[node.task]
            choosing = task.follows is not None or task.short is not None
            code = int(commands[node.task].split()[1]) if choosing else 99 if task.end == "skipped" else 0
            world.end(node, NodeFact.FAILED if task.end == "failed" else NodeFact.SUCCEEDED, code)
        else:
            break
        pick = pick * 7 + 3
    return {node.task: SHOWN[known.state] for node, known in world.nodes.items() if node.task != "d"}


@given(tasks=dags(), pick=st.integers(0, 10**6))
def test_tasks_end_as_in_airflow(tasks: list[ModelTask], pick: int) -> None:
    assert imported(tasks, pick) == ends(tasks)


def test_the_model_knows_what_is_below() -> None:
    tasks = [ModelTask("a", ()), ModelTask("b", ("a",)), ModelTask("c", ("b",)), ModelTask("d", ())]
    assert below("a", tasks) == {"b", "c"}

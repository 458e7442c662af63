"""Relations between random templates, compared with a model that reads the definitions pair by pair."""

from __future__ import annotations

from hypothesis import assume, given

from streamsched.codec.graph.task import task_to_json, tasks_from_json
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.task import TaskTemplate
from streamsched.testing.examples import examples
from tests.support.graph_model import depends, graphs_of_tasks, job_ids


def _compiled(tasks: list[TaskTemplate]) -> Graph:
    try:
        return Graph(tasks)
    except InvalidDefinitionError:
        assume(False)
        raise


@given(graphs_of_tasks(3))
@examples(300)
def test_parents_and_children_are_the_edges_of_the_definition(tasks: list[TaskTemplate]) -> None:
    graph = _compiled(tasks)
    by_name = {task.name: task for task in tasks}
    nodes = [NodeId(task.name, each) for task in tasks for each in job_ids(task)]
    up = {(p, c, group.group) for c in nodes for group in graph.parents(c) for p in group.parents}
    down = {(p, c, index) for p in nodes for c, index in graph.children(p)}
    model = {
        (p, c, index)
        for c in nodes
        for index, group in enumerate(by_name[c.task].groups)
        for p in nodes
        if depends(by_name, c, group, p)
    }
    assert up == model
    assert down == model


@given(graphs_of_tasks())
@examples(300)
def test_parents_come_before_children_and_each_once(tasks: list[TaskTemplate]) -> None:
    graph = _compiled(tasks)
    for task in tasks:
        for each in job_ids(task):
            for group in graph.parents(NodeId(task.name, each)):
                assert group.parents
                assert len(set(group.parents)) == len(group.parents)
                for parent in group.parents:
                    assert graph.order.index(parent.task) < graph.order.index(task.name)
            children = graph.children(NodeId(task.name, each))
            assert len(set(children)) == len(children)


@given(graphs_of_tasks())
@examples(200)
def test_json_gives_the_tasks_back(tasks: list[TaskTemplate]) -> None:
    assert list(tasks_from_json({task.name: task_to_json(task) for task in tasks})) == tasks

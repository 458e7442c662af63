"""Random tasks, and a naive model of `depends_on` that reads the definition for each pair of job ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import strategies as st

from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.task import ALL, DependencyGroup, Entry, NodeId, TaskTemplate, Values

VALUES = ("1", "2", "3")
_COMPONENTS = ("a", "b", "c", "d")

_templates = st.lists(st.sampled_from(_COMPONENTS), min_size=1, max_size=3, unique=True).map(
    lambda names: JobTemplate(tuple(names))
)
_lists = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True).map(tuple)
_listed: st.SearchStrategy[Values] = _lists | st.just(ALL)


@st.composite
def _autofill(draw: st.DrawFn, template: JobTemplate) -> dict[str, tuple[str, ...]]:
    names = draw(st.lists(st.sampled_from(template.components), unique=True, max_size=3))
    return {name: draw(_lists | st.just(())) for name in names}


@st.composite
def _entries(draw: st.DrawFn, child: JobTemplate, parents: Sequence[TaskTemplate], chosen: dict[str, Values]) -> Entry:
    """An entry that is likely to compile: what must be listed is."""
    tasks = draw(st.lists(st.sampled_from(parents), min_size=1, max_size=2, unique_by=lambda task: task.name))
    values = dict(chosen)
    for task in tasks:
        for name in task.template.components:
            if name not in child.components and name not in values:
                values[name] = draw(_listed)
    literal = None
    if draw(st.integers(0, 4)) == 0 and len({task.template.components for task in tasks}) == 1:
        ids = list(job_ids(tasks[0]))
        literal = tuple(draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True)))
    return Entry(tuple(task.name for task in tasks), values, literal)


@st.composite
def graphs_of_tasks(draw: st.DrawFn, most: int = 4) -> list[TaskTemplate]:
    """Tasks in topological order; a few do not compile."""
    tasks: list[TaskTemplate] = []
    for number in range(draw(st.integers(2, most))):
        template = draw(_templates)
        autofill = draw(_autofill(template))
        groups = []
        for index in range(draw(st.integers(0, 2)) if tasks else 0):
            listed = draw(st.lists(st.sampled_from(template.components), unique=True, max_size=2))
            chosen: dict[str, Values] = {name: draw(_lists) for name in listed}
            entries = draw(st.lists(_entries(template, tasks, chosen), min_size=1, max_size=2))
            groups.append(DependencyGroup(f"g{index}", tuple(entries)))
        tasks.append(TaskTemplate(f"t{number}", template, tuple(groups), autofill))
    return tasks


def job_ids(task: TaskTemplate) -> Iterator[str]:
    """All job ids of the small universe."""
    return ("_".join(parts) for parts in product(VALUES, repeat=len(task.template.components)))


def depends(tasks: dict[str, TaskTemplate], child: NodeId, group: DependencyGroup, parent: NodeId) -> bool:
    """Whether the child waits for the parent in the group."""
    below, above = tasks[child.task], tasks[parent.task]
    c = dict(zip(below.template.components, child.job_id.split("_"), strict=True))
    return all(_fits(tasks, below, entry, c) for entry in group.entries) and any(
        parent.task in entry.tasks and _matches(above, entry, c, parent.job_id) for entry in group.entries
    )


def _values(entry: Entry, name: str, parent: TaskTemplate) -> tuple[str, ...] | None:
    found = entry.values.get(name)
    return parent.autofill[name] if found is ALL else found  # type: ignore[return-value]


def _fits(tasks: dict[str, TaskTemplate], child: TaskTemplate, entry: Entry, c: dict[str, str]) -> bool:
    for name in entry.tasks:
        parent = tasks[name]
        for component, value in c.items():
            listed = _values(entry, component, parent)
            if listed is not None and value not in listed:
                return False
            if child.autofill.get(component) and value not in child.autofill[component]:
                return False
        if entry.job_ids is not None:
            shared = [each for each in parent.template.components if each in c and each not in entry.values]
            literal = [dict(zip(parent.template.components, each.split("_"), strict=True)) for each in entry.job_ids]
            if not any(all(one[each] == c[each] for each in shared) for one in literal):
                return False
    return True


def _matches(parent: TaskTemplate, entry: Entry, c: dict[str, str], parent_id: str) -> bool:
    for component, value in zip(parent.template.components, parent_id.split("_"), strict=True):
        listed = _values(entry, component, parent)
        if listed is None:
            if component in c and c[component] != value:
                return False
        elif entry.job_ids is None and value not in listed:
            return False
    return entry.job_ids is None or parent_id in entry.job_ids

"""Compiles the groups of a task's `depends_on` to relations, one for each entry and parent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.node import ParentOutcome
from streamsched.domain.graph.relation import Cross, Equal, PairRelation, Parts, Relation, ValueChoice
from streamsched.domain.graph.task import (
    MOST_GROUPS,
    MOST_VALUES,
    All,
    DependencyGroup,
    Entry,
    FunctionPair,
    TaskTemplate,
    check_fit,
    check_values,
)
from streamsched.domain.json_value import member_path
from streamsched.domain.limits import check_most


@dataclass(frozen=True, slots=True)
class GroupRelations:
    """A compiled group: it applies to a job id when all its relations do.

    Attributes:
        relations: the parent's task with the relation, in the order of the entries.
    """

    name: str
    relations: tuple[tuple[str, Relation | PairRelation], ...]

    @property
    def is_mixed(self) -> bool:
        """Whether what one relation gives as a child may be one to which another relation does not apply."""
        return any(isinstance(each, PairRelation) or each.literal is not None for _, each in self.relations)

    def applies(self, child: Parts) -> bool:
        """Whether the group gives the child its parents. A pair of functions always applies."""
        return all(relation.applies(child) for _, relation in self.relations if isinstance(relation, Relation))


def compile_groups(
    task: TaskTemplate, tasks: Mapping[str, TaskTemplate], functions: Mapping[str, FunctionPair], path: str
) -> tuple[GroupRelations, ...]:
    """The groups of a task, in order.

    Raises:
        InvalidDefinitionError: a group contradicts itself or a template; the path is within `path`, the task's
            `depends_on`.
    """
    single = len(task.groups) == 1 and task.groups[0].name == "default"
    return tuple(
        _group(task, group, tasks, functions, path if single else member_path(path, group.name))
        for group in task.groups
    )


def _group(
    task: TaskTemplate,
    group: DependencyGroup,
    tasks: Mapping[str, TaskTemplate],
    functions: Mapping[str, FunctionPair],
    path: str,
) -> GroupRelations:
    if not group.entries:
        raise InvalidDefinitionError(path, "is empty; a group names at least one task")
    check_most(len(group.entries), MOST_GROUPS, path, "entries")
    _check_consistent(task, group, path)
    _check_ends(group, path)
    found: list[tuple[str, Relation | PairRelation]] = []
    for number, entry in enumerate(group.entries):
        where = path if len(group.entries) == 1 else member_path(path, number)
        _check_entry(task, entry, tasks, where)
        for parent in entry.tasks:
            found.append((parent, _relation(task, entry, tasks[parent], functions, where)))
    return GroupRelations(group.name, tuple(_narrow_relations(task, found, path)))


def _check_ends(group: DependencyGroup, path: str) -> None:
    """A parent counts in one way in a group."""
    known: dict[str, tuple[ParentOutcome, ...] | None] = {}
    for number, entry in enumerate(group.entries):
        where = path if len(group.entries) == 1 else member_path(path, number)
        if entry.ends is not None and (not entry.ends or ParentOutcome.MISSING in entry.ends):
            raise InvalidDefinitionError(f"{where}.ends", "must name complete, failed or skipped")
        for parent in entry.tasks:
            if known.setdefault(parent, entry.ends) != entry.ends:
                raise InvalidDefinitionError(f"{where}.ends", f"are others of '{parent}' than in another entry")


def _check_consistent(task: TaskTemplate, group: DependencyGroup, path: str) -> None:
    """All entries of a group must select the same job ids of the child, or one would be needed by ids that another
    leaves out. Entries with literal job ids or functions are exempt.
    """
    entries = [entry for entry in group.entries if entry.job_ids is None and entry.function is None]
    for name in task.template.components:
        listed = [entry.values.get(name) for entry in entries]
        if any(each != listed[0] for each in listed):
            raise InvalidDefinitionError(
                path, f"lists other values of '{name}' in one entry than in another; say the same in all entries"
            )


def _check_entry(task: TaskTemplate, entry: Entry, tasks: Mapping[str, TaskTemplate], path: str) -> None:
    if not entry.tasks:
        raise InvalidDefinitionError(path, "names no task to depend on")
    check_values(entry.tasks, f"{path}.task")
    for number, parent in enumerate(entry.tasks):
        if parent not in tasks:
            raise InvalidDefinitionError(f"{path}.task[{number}]", f"there is no task '{parent}'")
    if entry.function is not None:
        if entry.values or entry.job_ids is not None:
            raise InvalidDefinitionError(f"{path}.function", "gives the parents; values and job ids do not go with it")
        return
    known = {name for parent in entry.tasks for name in tasks[parent].template.components}
    for name, values in entry.values.items():
        if name not in known and name not in task.template.components:
            raise InvalidDefinitionError(
                member_path(path, name), "is a component of neither the task nor one it depends on"
            )
        if not isinstance(values, All):
            check_values(values, member_path(path, name))
            if not values:
                raise InvalidDefinitionError(member_path(path, name), "is empty, so the entry would apply to no job id")


def _relation(
    task: TaskTemplate, entry: Entry, parent: TaskTemplate, functions: Mapping[str, FunctionPair], path: str
) -> Relation | PairRelation:
    if entry.function is not None:
        pair = functions.get(entry.function)
        if pair is None:
            raise InvalidDefinitionError(f"{path}.function", f"there is no pair of functions '{entry.function}'")
        return PairRelation(parent.template, task.template, entry.function, path, pair)
    theirs, ours = parent.template.components, task.template.components
    equal: list[Equal] = []
    cross: list[Cross] = []
    select: list[ValueChoice] = []
    for index, name in enumerate(theirs):
        values = _list_values(entry, name, parent, path)
        if values is not None:
            check_fit(parent.template, name, values, member_path(path, name))
            if entry.job_ids is None:
                cross.append(Cross(index, values))
        elif name in ours:
            equal.append(Equal(index, ours.index(name)))
        elif entry.job_ids is None:
            raise InvalidDefinitionError(
                path, f"does not say which '{name}' of task '{parent.name}' are needed: list them, or say \"all\""
            )
    same = {each.child for each in equal}
    for index, name in enumerate(ours):
        values = _list_values(entry, name, parent, path)
        if values is not None:
            check_fit(task.template, name, values, member_path(path, name))
        filling = task.autofill.get(name) or None
        if values is not None and filling is not None:
            values = tuple(each for each in values if each in set(filling))
        chosen = filling if values is None else values
        if chosen is not None:
            select.append(ValueChoice(index, chosen))
        elif index not in same:
            raise InvalidDefinitionError(
                path,
                f"does not say for which '{name}' of task '{task.name}' it is, and task '{parent.name}' has no "
                "such component: list them here or in autofill_values",
            )
    literal = None if entry.job_ids is None else _literal(entry.job_ids, parent, path)
    relation = Relation(parent.template, task.template, tuple(equal), tuple(cross), tuple(select), literal)
    _check_size(relation, path)
    return relation


def _list_values(entry: Entry, name: str, parent: TaskTemplate, path: str) -> tuple[str, ...] | None:
    values = entry.values.get(name)
    if not isinstance(values, All):
        return values
    found = parent.autofill.get(name)
    if not found:
        raise InvalidDefinitionError(
            member_path(path, name), f"is \"all\", but task '{parent.name}' has no autofill_values of '{name}'"
        )
    return found


def _literal(job_ids: tuple[str, ...], parent: TaskTemplate, path: str) -> tuple[Parts, ...]:
    check_values(job_ids, f"{path}.job_id")
    if not job_ids:
        raise InvalidDefinitionError(f"{path}.job_id", "is empty; leave it out, or list job ids")
    found: list[Parts] = []
    for number, each in enumerate(job_ids):
        where = f"{path}.job_id[{number}]"
        try:
            found.append(parent.template.parts(each, where))
        except InvalidError as exc:
            raise InvalidDefinitionError(where, exc.reason) from exc
    return tuple(found)


def _check_size(relation: Relation, path: str) -> None:
    given = {each.child for each in relation.equal}
    parents = prod(len(each.values) for each in relation.cross)
    children = prod(len(each.values) for each in relation.select if each.child not in given)
    check_most(parents, MOST_VALUES, path, "parents of one job id")
    check_most(children, MOST_VALUES, path, "children of one job id")


def _narrow_relations(
    task: TaskTemplate, relations: Iterable[tuple[str, Relation | PairRelation]], path: str
) -> list[tuple[str, Relation | PairRelation]]:
    """The relations, each with the selects of all of them, because the group applies where all of them do. A literal
    job id with an equal component selects the values of that component.
    """
    found = list(relations)
    allowed: dict[int, dict[str, None]] = {}
    for _, relation in found:
        if not isinstance(relation, Relation):
            continue
        selects = list(relation.select)
        if relation.literal is not None:
            selects += [
                ValueChoice(c, tuple(dict.fromkeys(each[p] for each in relation.literal))) for p, c in relation.equal
            ]
        for index, values in selects:
            before = allowed.get(index)
            allowed[index] = dict.fromkeys(each for each in values if before is None or each in before)
    for index, kept in allowed.items():
        if not kept:
            raise InvalidDefinitionError(
                path,
                "applies to no job id: its entries and autofill_values have no value of "
                f"'{task.template.components[index]}' in common",
            )
    narrowed = tuple(ValueChoice(index, tuple(values)) for index, values in sorted(allowed.items()))
    return [(parent, replace(each, select=narrowed) if isinstance(each, Relation) else each) for parent, each in found]

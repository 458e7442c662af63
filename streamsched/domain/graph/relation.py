"""A relation: how the job ids of a parent task and of a child task depend on each other, by one entry of `depends_on`.

`parents` and `children` are read off the same parts, so one is the inverse of the other: a parent p and a child c
depend on each other exactly when all equal components are equal, p has a value of each cross, c has one of each
select, and p is one of the literal job ids, if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.job_template import LONGEST_JOB_ID, JobTemplate
from streamsched.domain.graph.task import MOST_VALUES, FunctionPair
from streamsched.domain.limits import abridge

Parts = tuple[str, ...]


class Equal(NamedTuple):
    """The components at these indexes have the same value."""

    parent: int
    child: int


class Cross(NamedTuple):
    """Parents with each of these values at the index are wanted."""

    parent: int
    values: tuple[str, ...]


class ValueChoice(NamedTuple):
    """Children have one of these values at the index; where the parent does not give the value, there is a child for
    each.
    """

    child: int
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """The compiled form of an entry for one of its parents' tasks; every component of the parent is in `equal`, `cross`
    or, with `literal`, in the literal ids; every component of the child is in `equal` or `select`.

    Attributes:
        literal: parts of the job ids of the only parents; None: those of `equal` and `cross`.
    """

    parent: JobTemplate
    child: JobTemplate
    equal: tuple[Equal, ...] = ()
    cross: tuple[Cross, ...] = ()
    select: tuple[ValueChoice, ...] = ()
    literal: tuple[Parts, ...] | None = None

    _taken: tuple[frozenset[str] | None, ...] = field(init=False, repr=False, compare=False)
    _accepted: tuple[frozenset[str] | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        taken: list[frozenset[str] | None] = [None] * len(self.parent.components)
        accepted: list[frozenset[str] | None] = [None] * len(self.child.components)
        for cross in self.cross:
            taken[cross.parent] = frozenset(cross.values)
        for select in self.select:
            accepted[select.child] = frozenset(select.values)
        object.__setattr__(self, "_taken", tuple(taken))
        object.__setattr__(self, "_accepted", tuple(accepted))

    def applies(self, child: Parts) -> bool:
        """Whether a child has a value of each select, and the equal values of a literal job id if there are any."""
        if any(known is not None and value not in known for value, known in zip(child, self._accepted, strict=True)):
            return False
        return self.literal is None or any(self._has_equal_parts(each, child) for each in self.literal)

    def _has_equal_parts(self, parent: Parts, child: Parts) -> bool:
        return all(parent[p] == child[c] for p, c in self.equal)

    def parents(self, child: Parts) -> Iterator[str]:
        """The job ids of the parents, each once."""
        if not self.applies(child):
            return
        if self.literal is not None:
            yield from (self.parent.job_id(each) for each in self.literal if self._has_equal_parts(each, child))
            return
        slots: list[Sequence[str]] = [()] * len(self.parent.components)
        for cross in self.cross:
            slots[cross.parent] = cross.values
        for p, c in self.equal:
            slots[p] = (child[c],)
        yield from _fill_template(self.parent, slots)

    def children(self, parent: Parts) -> Iterator[str]:
        """The job ids of the children, each once."""
        if self.literal is not None:
            if parent not in self.literal:
                return
        elif any(known is not None and value not in known for value, known in zip(parent, self._taken, strict=True)):
            return
        slots: list[Sequence[str]] = [()] * len(self.child.components)
        for select in self.select:
            slots[select.child] = select.values
        for p, c in self.equal:
            known = self._accepted[c]
            slots[c] = (parent[p],) if known is None or parent[p] in known else ()
        yield from _fill_template(self.child, slots)


def _fill_template(template: JobTemplate, slots: Sequence[Sequence[str]]) -> Iterator[str]:
    """The job ids of all combinations that fit the template and are not too long: others cannot exist."""
    fitting = [
        [value for value in values if template.fits(index, value)] if len(values) == 1 else values
        for index, values in enumerate(slots)
    ]
    for parts in product(*fitting):
        found = template.job_id(parts)
        if len(found) <= LONGEST_JOB_ID:
            yield found


@dataclass(frozen=True, slots=True)
class PairRelation:
    """A relation by a pair of functions. The functions are checked whenever they are called: what one of them names,
    the other must name back.

    Attributes:
        name: of the pair, for errors.
        path: of the entry, for errors.
    """

    parent: JobTemplate
    child: JobTemplate
    name: str
    path: str
    pair: FunctionPair

    def parents(self, child: str) -> tuple[str, ...]:
        """The job ids of the parents, each once.

        Raises:
            InvalidDefinitionError: the function failed, named no job id of the parent, or is not the inverse.
        """
        found = self._ask("parents", self.pair.parents, child)
        for each in found:
            self._check("parents", child, each, self.parent, self.pair.children)
        return found

    def children(self, parent: str) -> tuple[str, ...]:
        """The job ids of the children, each once.

        Raises:
            InvalidDefinitionError: as `parents`.
        """
        found, failure = self.computable_children(parent)
        if failure is not None:
            raise failure
        return found

    def computable_children(self, parent: str) -> tuple[tuple[str, ...], InvalidDefinitionError | None]:
        """As `children`; when a function fails, the job ids on which none fails, with the first failure."""
        try:
            named = self._ask("children", self.pair.children, parent)
        except InvalidDefinitionError as error:
            return (), error
        found: list[str] = []
        failure: InvalidDefinitionError | None = None
        for each in named:
            try:
                self._check("children", parent, each, self.child, self.pair.parents)
                found.append(each)
            except InvalidDefinitionError as error:
                failure = failure or error
        return tuple(found), failure

    def _check(
        self, what: str, job_id: str, named: str, template: JobTemplate, inverse: Callable[[str], Iterable[str]]
    ) -> None:
        """Whether what one function names fits the template, and is named in return by the other."""
        try:
            template.parts(named)
        except InvalidError as exc:
            raise self._error(f"`{what}` of {abridge(job_id)}: {exc.reason}") from exc
        if job_id not in self._ask("the inverse", inverse, named):
            raise self._error(f"`{what}` of {abridge(job_id)} names {abridge(named)}, which does not name it in return")

    def _ask(self, what: str, function: Callable[[str], Iterable[str]], job_id: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        try:
            for each in function(job_id):
                found[str(each)] = None
                if len(found) > MOST_VALUES:
                    raise self._error(f"{what} of {abridge(job_id)} has more than {MOST_VALUES} job ids")
        except InvalidDefinitionError:
            raise
        except Exception as exc:
            raise self._error(f"{what} of {abridge(job_id)} failed: {type(exc).__name__}: {exc}") from exc
        return tuple(found)

    def _error(self, reason: str) -> InvalidDefinitionError:
        return InvalidDefinitionError(self.path, f"pair of functions '{self.name}': {reason}")

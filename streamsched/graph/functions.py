"""Functions of graphs, found by entry point: pairs that relate job ids, those of `valid_if_or`, and validators of the
components of job ids.

An entry point of group `streamsched.graph_functions` is an object with `parents` and `children`, two functions from a
job id to job ids; one of group `streamsched.graph_validities` is a function from the task's name and the values of the
components by name to whether the job id has work to do; one of group `streamsched.job_id_validations` is functions by
component (`domain.graph.job_template.Validator`), or a module with them as `JOB_ID_VALIDATIONS`. They are called in
threads and outside transactions, by launchers and API servers, any number of times; each must give the same answer
everywhere and always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.job_template import Validator
from streamsched.domain.graph.task import (
    FunctionPair,
    TaskTemplate,
    Validity,
    functions_of,
    validations_of,
    validities_of,
)
from streamsched.process.entry_points import installed_points

PAIRS: Final = "streamsched.graph_functions"
VALIDITIES: Final = "streamsched.graph_validities"
VALIDATIONS: Final = "streamsched.job_id_validations"
#: Values of a component whose conversion is remembered.
_REMEMBERED: Final = 10_000

Loaders = Mapping[str, Callable[[], Any]]


class GraphFunctions:
    """The functions of this environment.

    Args:
        pairs, validities, validations: by name, imported on first use; default: those of the installed entry points.
    """

    def __init__(
        self,
        pairs: Loaders | None = None,
        validities: Loaders | None = None,
        validations: Loaders | None = None,
    ) -> None:
        self._given = {PAIRS: pairs, VALIDITIES: validities, VALIDATIONS: validations}

    def graph(self, tasks: Sequence[TaskTemplate]) -> Graph:
        """The graph of these tasks with the functions that they name. May take as long as imports do.

        Raises:
            InvalidDefinitionError: a function is not installed here, cannot be loaded or is none; or the tasks
                contradict each other.
        """
        pairs = {name: _pair(name, path, self._load(PAIRS, name, path)) for name, path in functions_of(tasks)}
        found = {name: _validity(path, self._load(VALIDITIES, name, path)) for name, path in validities_of(tasks)}
        return Graph(self.with_validators(tasks), functions=pairs, validities=found)

    def with_validators(self, tasks: Sequence[TaskTemplate]) -> list[TaskTemplate]:
        """The tasks with the validators that they name.

        Raises:
            InvalidDefinitionError: as `graph`.
        """
        found = {name: self.validators(name, path) for name, path in validations_of(tasks)}
        return [
            replace(task, template=replace(task.template, validators=found[task.template.validations]))
            if task.template.validations
            else task
            for task in tasks
        ]

    def validators(self, name: str, path: str) -> Mapping[str, Validator]:
        """The validators of this name by component.

        Raises:
            InvalidDefinitionError: as `graph`.
        """
        loaded = self._load(VALIDATIONS, name, path)
        found = getattr(loaded, "JOB_ID_VALIDATIONS", loaded)
        if not isinstance(found, Mapping) or not all(map(callable, found.values())):
            raise InvalidDefinitionError(path, f"'{name}' must be functions by component, in a dict")
        return {str(component): lru_cache(_REMEMBERED)(function) for component, function in found.items()}

    def _load(self, group: str, name: str, path: str) -> Any:
        given = self._given[group]
        known = _loaders(group) if given is None else given
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InvalidDefinitionError(path, f"no '{name}' of group {group} is installed here (known: {names})")
        try:
            return known[name]()
        except (Exception, SystemExit) as exc:  # third-party code
            raise InvalidDefinitionError(path, f"'{name}' cannot be loaded: {type(exc).__name__}: {exc}") from exc


def _loaders(group: str) -> Loaders:
    return {name: point.load for name, point in installed_points(group).items()}


def _pair(name: str, path: str, found: Any) -> FunctionPair:
    for function in ("parents", "children"):
        if not callable(getattr(found, function, None)):
            raise InvalidDefinitionError(path, f"'{name}' has no function `{function}`")
    return FunctionPair(found.parents, found.children)


def _validity(path: str, found: Any) -> Validity:
    if callable(found):
        return found  # type: ignore[return-value]
    raise InvalidDefinitionError(path, "is no function")

"""Which tasks are above and below each other. Sets of tasks are bits of a number, so that thousands of tasks fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from streamsched.dialects.airflow.codec.source.dag_task import DagTask


class CircleError(Exception):
    """Tasks that wait for each other; the text names them."""


class TaskOrder:
    """The order of the tasks of a DAG.

    Raises:
        CircleError: there is a circle.
    """

    def __init__(self, tasks: Mapping[str, DagTask]) -> None:
        self._names = list(tasks)
        self._bits = {name: 1 << number for number, name in enumerate(self._names)}
        self.children: dict[str, list[str]] = {name: [] for name in tasks}
        for name, task in tasks.items():
            for each in task.after:
                self.children[each].append(name)
        try:
            ordered = tuple(TopologicalSorter({name: list(task.after) for name, task in tasks.items()}).static_order())
        except CycleError as exc:
            raise CircleError(" after ".join(list(exc.args[1])[:10])) from None
        self._above: dict[str, int] = {}
        for name in ordered:
            self._above[name] = 0
            for each in tasks[name].after:
                self._above[name] |= self._above[each] | self._bits[each]
        self._below = dict.fromkeys(tasks, 0)
        for name in reversed(ordered):
            for each in self.children[name]:
                self._below[name] |= self._below[each] | self._bits[each]

    def tasks_above(self, name: str) -> int:
        """All tasks before a task."""
        return self._above[name]

    def tasks_below(self, name: str) -> int:
        """All tasks after a task."""
        return self._below[name]

    def follows(self, name: str, other: str) -> bool:
        """Whether a task is anywhere after another one."""
        return bool(self._below[other] & self._bits[name])

    def names(self, found: int) -> Iterator[str]:
        """The tasks of a set."""
        while found:
            lowest = found & -found
            yield self._names[lowest.bit_length() - 1]
            found ^= lowest

    def total(self, found: int, weights: Mapping[str, int]) -> int:
        """The sum of the weights of a set."""
        if all(each == 1 for each in weights.values()):
            return found.bit_count()
        return sum(weights[name] for name in self.names(found))

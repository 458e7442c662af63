"""Which tasks the names of a DAG's statements stand for."""

from __future__ import annotations

import ast

from streamsched.dialects.airflow.codec.source.dag_task import NO_TASKS, TaskSet
from streamsched.dialects.airflow.codec.source.literal import LiteralReader, UnreadableError


class TaskNames:
    """Variables with tasks, and dictionaries of tasks by key."""

    def __init__(self, reader: LiteralReader) -> None:
        self._reader = reader
        self._sets: dict[str, TaskSet] = {}
        self._members: dict[str, dict[str, TaskSet]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._sets

    def get(self, name: str) -> TaskSet:
        """The tasks of a variable; none for another."""
        return self._sets.get(name, NO_TASKS)

    def put(self, name: str, found: TaskSet, *, listed: bool = False) -> None:
        """Takes the tasks of a variable. Without tasks the variable is none of tasks any more, unless it is a list."""
        self._members.pop(name, None)
        if found.heads or listed:
            self._sets[name] = found
        else:
            self._sets.pop(name, None)

    def put_member(self, name: str, key: ast.expr | None, found: TaskSet) -> None:
        """Takes the tasks of a key of a dictionary."""
        try:
            text = None if key is None else self._reader.read(key)
        except UnreadableError:
            text = None
        if found.heads and isinstance(text, str | int):
            self._members.setdefault(name, {})[str(text)] = found

    def has_members(self, name: str) -> bool:
        """Whether a variable is a dictionary of tasks."""
        return name in self._members

    def member(self, name: str, key: ast.expr) -> TaskSet:
        """The tasks of a key of a dictionary."""
        try:
            return self._members[name].get(str(self._reader.read(key)), NO_TASKS)
        except UnreadableError:
            return NO_TASKS

    def put_each(self, targets: list[ast.expr], items: tuple[TaskSet, ...]) -> None:
        """Takes the elements of a list as the tasks of as many variables."""
        for target, found in zip(targets, items, strict=False) if len(targets) == len(items) else ():
            if isinstance(target, ast.Name):
                self.put(target.id, found)

    def snapshot(self) -> dict[str, TaskSet]:
        """What variables stand for now, for `restore`."""
        return dict(self._sets)

    def restore(self, kept: dict[str, TaskSet]) -> None:
        """What variables stood for then."""
        self._sets = kept

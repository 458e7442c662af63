"""What the ends of nodes mean: to a child by `ends` of its `depends_on`, and what exit codes mean by `exit_codes`.

>>> from streamsched.domain.graph.job_template import JobTemplate
>>> from streamsched.domain.graph.task import DependencyGroup, Entry
>>> after = DependencyGroup("default", (Entry(("load",), ends=(ParentOutcome.FAILED,)),))
>>> load = TaskTemplate("load", JobTemplate.parse("{date}"))
>>> alert = TaskTemplate("alert", JobTemplate.parse("{date}"), (after,))
>>> reactions = Reactions([load, alert])
>>> reactions.outcome_for_group("alert", 0, "load", ParentOutcome.FAILED)
<ParentOutcome.COMPLETE: 'complete'>
>>> reactions.outcome_for_group("alert", 0, "load", ParentOutcome.COMPLETE)
<ParentOutcome.SKIPPED: 'skipped'>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from streamsched.domain.graph.node import NodeFact, ParentOutcome
from streamsched.domain.graph.task import TaskTemplate

_NONE: Final[Mapping[int, tuple[str, ...] | None]] = {}


class Reactions:
    """Of the tasks of one graph."""

    def __init__(self, tasks: Iterable[TaskTemplate]) -> None:
        self._ends: dict[tuple[str, int, str], tuple[ParentOutcome, ...]] = {}
        self._codes: dict[str, Mapping[int, tuple[str, ...] | None]] = {}
        above: dict[str, set[str]] = {}
        for task in tasks:
            if task.exit_codes:
                self._codes[task.name] = task.exit_codes
            for index, group in enumerate(task.groups):
                for entry in group.entries:
                    above.setdefault(task.name, set()).update(entry.tasks)
                    if entry.ends is not None:
                        self._ends |= {(task.name, index, parent): entry.ends for parent in entry.tasks}
        self._reacting: set[str] = set()
        waiting = [child for child, _, _ in self._ends]
        while waiting:
            name = waiting.pop()
            if name not in self._reacting:
                self._reacting.add(name)
                waiting += above.get(name, ())

    def outcome_for_group(self, child: str, group: int, parent: str, outcome: ParentOutcome) -> ParentOutcome:
        """What a parent with this outcome is to a child by a group: complete when its end is wanted; else failed when
        it failed and success was wanted, and skipped otherwise.
        """
        ends = self._ends.get((child, group, parent))
        if ends is None or outcome is ParentOutcome.MISSING:
            return outcome
        if outcome in ends:
            return ParentOutcome.COMPLETE
        wanted = ParentOutcome.COMPLETE in ends
        return ParentOutcome.FAILED if outcome is ParentOutcome.FAILED and wanted else ParentOutcome.SKIPPED

    def creates(self, child: str, counted: ParentOutcome) -> bool:
        """Whether a parent that counts so creates a node of the child: by success, or by any end where the child, or
        a task below it, reacts to other ends.
        """
        ended = counted is not ParentOutcome.MISSING
        return counted is ParentOutcome.COMPLETE or (ended and child in self._reacting)

    def end(self, task: str, exit_code: int | None) -> tuple[NodeFact, str]:
        """The fact of a node whose run completed with this exit code, and the reason of another than success."""
        codes = self._codes.get(task, _NONE)
        named = exit_code is not None and exit_code in codes
        if exit_code is not None and named and codes[exit_code] is None:
            return NodeFact.SKIPPED, f"its run said so by exit code {exit_code}"
        if not named and self.branches(task):
            return NodeFact.FAILED, f"its run completed with exit code {exit_code}, which its exit_codes do not name"
        return NodeFact.SUCCEEDED, ""

    def branches(self, task: str) -> bool:
        """Whether the exit codes of a task name those of its children that go on."""
        return any(children is not None for children in self._codes.get(task, _NONE).values())

    def leaves_out(self, task: str, exit_code: int | None, child: str) -> bool:
        """Whether a node that completed with this exit code skips this child."""
        going_on = None if exit_code is None else self._codes.get(task, _NONE).get(exit_code)
        return going_on is not None and child not in going_on

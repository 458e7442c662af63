"""Whether each node of a graph did its work once for each time it was asked for, after its parents. From plain edges:
nothing here is the product's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.judgement import Judgement

#: The groups of a node's parents; one complete group is enough.
Edges = dict[str, list[list[str]]]


@dataclass(slots=True)
class Work:
    """What was asked of a graph.

    Attributes:
        edges: of all nodes there may be.
        asked: nodes that were submitted.
        again: nodes that were submitted again when all had ended, each once.
        overlapping: nodes that were submitted again while others ran, with the number of lines that were noted before.
            One that runs is joined.
    """

    edges: Edges = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    overlapping: list[tuple[str, int]] = field(default_factory=list)

    @property
    def wanted(self) -> Mapping[str, tuple[int, int]]:
        """Nodes that run, with the least and the greatest number of times."""
        ran: set[str] = set()
        above = list(self.asked)
        while above:  # up: everything that is lacking
            node = above.pop()
            if node not in ran:
                ran.add(node)
                above += [parent for group in self.edges[node] for parent in group]
        ran |= self._below(ran)
        least, most = Counter(dict.fromkeys(ran, 1)), Counter(dict.fromkeys(ran, 1))
        for node in self.again:
            sure, perhaps = {node}, {node}
            while more := {each for each in ran - perhaps if self._touched(each, perhaps)}:
                perhaps |= more
            while more := {each for each in ran - sure if self._sure(each, sure)}:
                sure |= more
            least.update(sure)
            most.update(perhaps)
        for node, _ in self.overlapping:
            perhaps = {node}
            while more := {each for each in ran - perhaps if self._touched(each, perhaps)}:
                perhaps |= more
            most.update(perhaps)
        return {node: (least[node], most[node]) for node in ran}

    def _below(self, ran: set[str]) -> set[str]:
        """Down: those of which a group is complete."""
        found = set(ran)
        while more := {
            node
            for node, groups in self.edges.items()
            if node not in found and any(set(group) <= found for group in groups)
        }:
            found |= more
        return found

    def _touched(self, node: str, running: set[str]) -> bool:
        return any(parent in running for group in self.edges[node] for parent in group)

    def _sure(self, node: str, running: set[str]) -> bool:
        """With alternatives it depends on the order of ends whether one of them stays complete."""
        return len(self.edges[node]) == 1 and self._touched(node, running)


def judge_graph(
    work: Work, states: Mapping[str, str], runs: Mapping[str, str], lines: Sequence[Sequence[str]], into: Judgement
) -> None:
    """Compares nodes and runs by their states, and the notes of what ran, with what was asked for.

    Args:
        lines: `began|done <task> <job id> <run>`, in the order of time.
    """
    wanted = work.wanted
    for node in wanted:
        if states.get(node) != "COMPLETED":
            into.miss(f"{node} is {states.get(node)}")
    completed: Counter[str] = Counter()
    ended: set[str] = set()
    once: Counter[str] = Counter()
    for what, task, job_id, run in lines:
        node = f"{task} {job_id}"
        if what == "began":
            if not _may_begin(work.edges[node], ended):
                into.spoil(f"{node} began before its parents were done")
            continue
        ended.add(node)
        once[run] += 1
        if once[run] > 1:
            into.double(f"the work of run {run}")
        if runs.get(run) == "COMPLETED":
            completed[node] += 1
        elif runs.get(run) not in {"LOST", "FAILED", "KILLED"}:  # killed before its end was stored, and so repeated
            into.miss(f"the end of {run}, which is {runs.get(run)}")
    if work.overlapping:
        _judge_overlapping(work, [each for each in enumerate(lines) if runs.get(each[1][3]) == "COMPLETED"], into)
    for run, state in runs.items():
        if state == "COMPLETED" and not once[run]:
            into.spoil(f"{run} is completed and did nothing")
        elif state not in {"COMPLETED", "LOST", "FAILED", "KILLED"}:
            into.miss(f"{run} is {state}")
    for node, (least, most) in wanted.items():
        if completed[node] < least:
            into.miss(f"{node} was completed {completed[node]} times of {least}", least - completed[node])
        elif completed[node] > most:
            into.double(f"{node} was completed {completed[node]} times of {most}", completed[node] - most)
    for node in completed.keys() - wanted.keys():
        into.double(f"{node}, which was not asked for")


def _judge_overlapping(work: Work, lines: Sequence[tuple[int, Sequence[str]]], into: Judgement) -> None:
    """Each submission has an end of the node's work after it, and what a node has done last is newer than its parents.

    Args:
        lines: of completed runs, with their number.
    """
    began: dict[str, int] = {}
    done: dict[str, int] = {}
    for number, (what, task, job_id, _) in lines:
        (began if what == "began" else done)[f"{task} {job_id}"] = number
    for node, before in work.overlapping:
        if done.get(node, -1) < before:
            into.miss(f"the work of {node} that was asked for again")
    for node, number in began.items():
        groups = work.edges[node]
        if len(groups) == 1 and any(done.get(parent, -1) > number for parent in groups[0]):
            into.miss(f"{node} after the last work of its parents")


def _may_begin(groups: Sequence[Sequence[str]], ended: set[str]) -> bool:
    return not groups or any(ended.issuperset(group) for group in groups)

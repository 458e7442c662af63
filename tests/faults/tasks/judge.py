"""The judge of deliveries: from what was registered, as the API answered, and what arrived at the far side.

It shares no code with the kernel. Times are seconds since the epoch, of one machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import NamedTuple

from tests.faults.tasks.receiver import Delivery


class Name(NamedTuple):
    """A task, by its lane and its key."""

    lane: str
    key: str


@dataclass(frozen=True, slots=True)
class Registration:
    """One that was stored. `verdict`: as the API has it. `answered`: when its answer had arrived."""

    name: Name
    version: int
    due: float
    verdict: str
    answered: float


@dataclass(slots=True)
class TaskVerdict:
    """Deviations by kind; all are 0 in a trial that is well.

    Attributes:
        lost: registered and never acknowledged.
        early: arrived before their due time.
        unordered: arrived before another of the lane that goes first, or before it was acknowledged.
        together: arrived while another of the lane was on its way.
        stale: delivered though they had been replaced before they were started.
        unexplained: delivered again though they were not in flight when another process took their lanes.
        repeated: delivered again; those that were in flight then are no deviation.
    """

    lost: int = 0
    early: int = 0
    unordered: int = 0
    together: int = 0
    stale: int = 0
    unexplained: int = 0
    repeated: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        return not (self.lost or self.early or self.unordered or self.together or self.stale or self.unexplained)

    def line(self) -> str:
        counted = (each.name for each in fields(self) if each.name != "words")
        return " ".join(f"{name} {getattr(self, name)}" for name in counted)

    def add(self, other: TaskVerdict) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def note(self, kind: str, what: object) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.words) < 20:
            self.words.append(f"{kind}: {what}")


def judge(
    registered: Sequence[Registration],
    dropped: Mapping[Name, float],
    deliveries: Sequence[Delivery],
    in_flight: Collection[Name],
) -> TaskVerdict:
    """Judges a trial.

    Args:
        dropped: when the drop of a task was requested.
        in_flight: tasks that were in flight when another process took their lanes.
    """
    verdict = TaskVerdict()
    newest = {each.name: each for each in registered}  # in the order of their registration
    acknowledged = {(Name(each.lane, each.key), each.version) for each in deliveries if each.acknowledged}
    for name, each in newest.items():
        if (name, each.version) not in acknowledged and name not in dropped:
            verdict.note("lost", each)
    replaced = {
        (before.name, before.version)
        for versions in _by_name(registered).values()
        for before, after in pairwise(versions)
        if after.verdict == "replaced" and after.version != before.version
    }
    seen: set[tuple[str, int]] = set()
    for each in deliveries:
        name = Name(each.lane, each.key)
        if each.arrived < each.due:
            verdict.note("early", (name, each.due - each.arrived))
        if (name, each.version) in replaced:
            verdict.note("stale", each)
        if (each.token, each.attempt) in seen:
            verdict.repeated += 1
            if name not in in_flight:
                verdict.note("unexplained", each)
        seen.add((each.token, each.attempt))
    answered: dict[tuple[Name, int], float] = {}
    for each in registered:
        answered.setdefault((each.name, each.version), each.answered)
    lanes: defaultdict[str, list[Delivery]] = defaultdict(list)
    for each in deliveries:
        lanes[each.lane].append(each)
    for found in lanes.values():
        _judge_lane(found, answered, dropped, verdict)
    return verdict


def _judge_lane(
    deliveries: Sequence[Delivery],
    answered: Mapping[tuple[Name, int], float],
    dropped: Mapping[Name, float],
    verdict: TaskVerdict,
) -> None:
    firsts: dict[str, Delivery] = {}
    ends: dict[str, float] = {}
    for each in deliveries:
        for key, first in firsts.items():
            other = Name(each.lane, key)
            if key == each.key or each.key in firsts or dropped.get(other, float("inf")) < each.arrived:
                continue
            if ends.get(key, float("inf")) > each.arrived:
                verdict.note("unordered", f"{each} before the end of {first}")
        firsts.setdefault(each.key, each)
        if each.acknowledged:
            ends.setdefault(each.key, each.ended)
    inorder = list(firsts.values())
    for place, later in enumerate(inorder):
        for earlier in inorder[:place]:
            was_there = answered[Name(later.lane, later.key), later.version] <= earlier.due
            if was_there and (later.due, later.key) < (earlier.due, earlier.key):
                verdict.note("unordered", f"{earlier} before {later}")
    for place, each in enumerate(deliveries):
        for former in deliveries[:place]:
            if former.key != each.key and former.ended > each.arrived:
                verdict.note("together", f"{former} and {each}")


def _by_name(registered: Iterable[Registration]) -> Mapping[Name, list[Registration]]:
    found: defaultdict[Name, list[Registration]] = defaultdict(list)
    for each in registered:
        found[each.name].append(each)
    return found

"""The judge of deliveries: from what was registered, what arrived at the far side, and what triggers in the database
recorded of starts and takeovers.

It shares no code with the kernel. Times are seconds since the epoch, of one machine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from tests.faults.tasks.receiver import Delivery
from tests.support.judgement import Judgement

_NEVER: Final = float("inf")
_STORED: Final = ("made", "replaced")


class Name(NamedTuple):
    """A task, by its lane and its key."""

    lane: str
    key: str


@dataclass(frozen=True, slots=True)
class Registration:
    """One that was sent. `verdict`: what became of it; `made` and `replaced` were stored. `answered`: when that was
    known.
    """

    name: Name
    version: int
    due: float
    verdict: str
    answered: float

    @property
    def stored(self) -> bool:
        return self.verdict in _STORED


@dataclass(frozen=True, slots=True)
class Watched:
    """What triggers recorded.

    Attributes:
        starts: the first start of each task.
        takeovers: by the token of a delivery, when another process took its lane while it was in flight.
    """

    starts: Mapping[Name, float] = field(default_factory=dict)
    takeovers: Mapping[str, Sequence[float]] = field(default_factory=dict)


#: Deviations: registered and never acknowledged, or not stored though the task was not started before (lost); arrived
#: before their due time (early); before another of the lane that goes first, or before it was acknowledged (unordered);
#: while another of the lane was on its way (together); though they had been replaced before they were started, or were
#: never stored (stale); repeats of an attempt without a takeover before each while it was in flight (unexplained).
#: `repeated` is all repeats of attempts; those that were in flight at a takeover are no deviation.
KINDS: Final = ("lost", "early", "unordered", "together", "stale", "unexplained", "repeated")
_ALLOWED: Final = frozenset({"repeated"})


def task_judgement() -> Judgement:
    """One that has found nothing yet."""
    return Judgement(KINDS, _ALLOWED)


def judge_tasks(
    sent: Sequence[Registration], dropped: Mapping[Name, float], deliveries: Sequence[Delivery], watched: Watched
) -> Judgement:
    """Judges a trial.

    Args:
        sent: in the order in which they took effect.
        dropped: when the drop of a task was requested.
    """
    verdict = task_judgement()
    registered = [each for each in sent if each.stored]
    newest = {each.name: each for each in registered}
    acknowledged = {(Name(each.lane, each.key), each.version) for each in deliveries if each.acknowledged}
    for name, each in newest.items():
        if (name, each.version) not in acknowledged and name not in dropped:
            verdict.note("lost", each)
    for each in sent:
        if not each.stored and not _explained(each, newest, dropped, watched):
            verdict.note("lost", f"{each} was not stored, though nothing of the task had started")
    replaced = {
        (before.name, before.version)
        for versions in _by_name(registered).values()
        for before, after in pairwise(versions)
        if after.verdict == "replaced" and after.version != before.version
    }
    answered: dict[tuple[Name, int], float] = {}
    for each in registered:
        answered.setdefault((each.name, each.version), each.answered)
    known: list[Delivery] = []
    for delivery in deliveries:
        version = Name(delivery.lane, delivery.key), delivery.version
        if delivery.arrived < delivery.due:
            verdict.note("early", (version, delivery.due - delivery.arrived))
        if version in replaced or version not in answered:
            verdict.note("stale", delivery)
        if version in answered:
            known.append(delivery)
    _judge_repeats(deliveries, watched, verdict)
    lanes: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in known:
        lanes[delivery.lane].append(delivery)
    for found in lanes.values():
        _judge_lane(found, answered, dropped, watched, verdict)
    return verdict


def _explained(
    each: Registration, newest: Mapping[Name, Registration], dropped: Mapping[Name, float], watched: Watched
) -> bool:
    """Whether a registration could be left out: the same or a later one is stored, or the task had been started or
    dropped.
    """
    other = newest.get(each.name)
    if other is not None and other.version >= each.version:
        return True
    return min(watched.starts.get(each.name, _NEVER), dropped.get(each.name, _NEVER)) <= each.answered


def _judge_repeats(deliveries: Sequence[Delivery], watched: Watched, verdict: Judgement) -> None:
    """Each repeat of an attempt needs a takeover of its own before it, while the attempt was in flight."""
    seen: set[tuple[str, int]] = set()
    repeats: Counter[str] = Counter()
    for each in deliveries:
        if (each.token, each.attempt) in seen:
            verdict.note("repeated", each)
            repeats[each.token] += 1
            before = sum(at <= each.arrived for at in watched.takeovers.get(each.token, ()))
            if before < repeats[each.token]:
                verdict.note("unexplained", f"{each}, takeovers: {before}")
        seen.add((each.token, each.attempt))


def _judge_lane(
    deliveries: Sequence[Delivery],
    answered: Mapping[tuple[Name, int], float],
    dropped: Mapping[Name, float],
    watched: Watched,
    verdict: Judgement,
) -> None:
    firsts: dict[str, Delivery] = {}
    ends: dict[str, float] = {}
    for each in deliveries:
        for key, first in firsts.items():
            other = Name(each.lane, key)
            if key == each.key or each.key in firsts or dropped.get(other, _NEVER) < each.arrived:
                continue
            if ends.get(key, _NEVER) > each.arrived:
                verdict.note("unordered", f"{each} before the end of {first}")
        firsts.setdefault(each.key, each)
        if each.acknowledged:
            ends.setdefault(each.key, each.ended)
    inorder = list(firsts.values())
    for place, later in enumerate(inorder):
        name = Name(later.lane, later.key)
        for earlier in inorder[:place]:
            if dropped.get(name, _NEVER) < earlier.arrived:
                continue  # nothing waits for it any more; a request that a paused owner had begun arrives late
            was_there = answered[name, later.version] <= earlier.due
            if was_there and (later.due, later.key) < (earlier.due, earlier.key):
                verdict.note("unordered", f"{earlier} before {later}, dropped: {dropped.get(name)}")
    for place, each in enumerate(deliveries):
        for former in deliveries[:place]:
            if former.key != each.key and former.ended > each.arrived:
                among = [other for other in deliveries[:place] if other.key == former.key and other is not former]
                taken = watched.takeovers.get(former.token, ())
                verdict.note("together", f"{former} and {each}; taken at {taken}; others of the former: {among}")


def _by_name(registered: Iterable[Registration]) -> Mapping[Name, list[Registration]]:
    found: defaultdict[Name, list[Registration]] = defaultdict(list)
    for each in registered:
        found[each.name].append(each)
    return found

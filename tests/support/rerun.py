"""The jobs a log must start, found by reporting the whole log to a tree of `trigger_model`, one for each open key,
instant after instant. It is the only model of triggers: properties of the fold, the simulation and the fault trials
compare with it.

It knows no wake-ups: time passes for it everywhere at once. So what it expects is what the fold decides, whether
wake-ups come at their time, late or not at all; only the numbers of jobs of different keys may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from streamsched.domain.events.event import CustomHappened, Event, PartitionsAdded, ProgramReached, Ticked
from streamsched.domain.events.lateness import OnLate
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.trigger import AllOf, CustomEvent, Partitions, Per, Trigger, children, leaf_id
from streamsched.domain.triggers.trigger import Leaf as LeafTrigger
from tests.support.periods import keys_of
from tests.support.trigger_model import Reports, Tree, summed

#: What the log appended, and when.
Stamped = tuple[datetime, Signal]


class Expected(NamedTuple):
    """A job, by value."""

    generation: int
    key: str
    at: datetime
    reported: tuple[Reports, ...]

    @classmethod
    def of(cls, job: ReadyJob) -> Self:
        """What would have been expected, had this job been."""
        reported = tuple(
            (c.leaf, c.count, tuple(dict.fromkeys(event.id for event in c.events))) for c in job.contributions
        )
        return cls(job.generation, job.key, job.satisfied_at, reported)


@dataclass
class Open:
    """A key's tree, and since when."""

    tree: Tree
    since: datetime


@dataclass
class Rerun:
    """A log, reported again from its beginning."""

    put: Put | None = None
    per: Per | None = None
    only: Tree | None = None
    keys: dict[str, Open] = field(default_factory=dict)
    jobs: list[Expected] = field(default_factory=list)
    lost: int = 0
    refused: int = 0

    def tell(self, at: datetime, signal: Signal) -> None:
        """One record after the other."""
        self.elapse(at)
        match signal:
            case Put(generation=generation):
                if self.put is None or generation > self.put.generation:
                    self._begin(signal, at)
            case Drop(generation=generation):
                if self.put is not None and generation >= self.put.generation:
                    self.put, self.only, self.keys = None, None, {}
            case Occurred(event=event):
                if self.put is not None and counts(self.put) and not self._late(signal):
                    self._hear(event, at)
            case _:
                pass

    def elapse(self, to: datetime) -> None:
        """Time passes everywhere."""
        while self.put is not None:
            dues = [due for tree in self._trees() if (due := tree.next_due()) is not None]
            dues += [one.since + self.per.expires for one in self.keys.values() if self.per is not None]
            instant = min(dues, default=None)
            if instant is None or instant > to:
                return
            if self.only is not None:
                self.only.expire(instant)
                self._fire(self.only, instant)
            for key, one in list(self.keys.items()):
                one.tree.expire(instant)
                fired = self._fire(one.tree, instant)
                self._close(key, fired=fired)
                if key in self.keys and self.per is not None and one.since + self.per.expires <= instant:
                    del self.keys[key]
                    self.lost += 1

    def _trees(self) -> list[Tree]:
        return [one.tree for one in self.keys.values()] + ([] if self.only is None else [self.only])

    def _begin(self, put: Put, at: datetime) -> None:
        """A definition comes into force. One that keeps goes on with the trees of an equal trigger, and of another with
        what each leaf has that is about the same, also where it wants more or less of it.
        """
        keeps = put.keep and self.put is not None and holds(self.put)
        goes_on = keeps and self.put is not None and self.put.trigger == put.trigger
        former = self.only if keeps and not goes_on else None
        if not goes_on:
            self.only, self.keys = None, {}
        self.put, self.per, self.lost = put, bound_of(put.trigger), 0
        if not holds(put):
            self.only, self.keys = None, {}
        elif self.per is None and self.only is None:
            self.only = Tree(put.trigger, put.generation, put.consumption, at)
            if former is not None:
                carry(former, self.only, put)
        for key, tree in [(key, one.tree) for key, one in self.keys.items()] + ([("", self.only)] if self.only else []):
            tree.generation, tree.consumption = put.generation, put.consumption
            if put.draining:
                tree.stop_silences()
            else:
                tree.begin_silences(at)
            fired = self._fire(tree, at)
            if key:
                self._close(key, fired=fired)

    def _hear(self, event: Event, at: datetime) -> None:
        if self.only is not None:
            self.only.hear(event, at)
            self._fire(self.only, at)
        assert self.put is not None
        before, jobs = deepcopy(self.keys), len(self.jobs)
        for key in dict.fromkeys(keys_in(self.put.trigger, event)) if self.per is not None else ():
            known = self.keys.get(key)
            one = known or Open(Tree(self.put.trigger, self.put.generation, self.put.consumption, at, key), at)
            if not one.tree.hear(event, at):
                continue
            if known is None:
                self.keys[key] = one
            fired = self._fire(one.tree, at)
            self._close(key, fired=fired)
        if self.per is not None and self.per.full is OnFull.REFUSE:
            if len(self.keys) > max(len(before), self.per.at_most):
                self.keys, self.refused = before, self.refused + 1
                del self.jobs[jobs:]
        elif self.per is not None:
            for key in list(self.keys)[: max(0, len(self.keys) - self.per.at_most)]:
                del self.keys[key]
                self.lost += 1

    def _fire(self, tree: Tree, at: datetime) -> bool:
        assert self.put is not None
        reported = tree.fire(at) if self.put.enabled else []
        self.jobs += [Expected(self.put.generation, tree.key, at, each) for each in reported]
        return bool(reported)

    def _close(self, key: str, *, fired: bool) -> None:
        """A key of which nothing is left is not open; once it has fired, a silence alone is nothing."""
        if self.keys[key].tree.empty(silences=not fired):
            del self.keys[key]

    def _late(self, signal: Occurred) -> bool:
        late = None if self.put is None else self.put.late
        if late is None or late.then is OnLate.ACCEPT or isinstance(signal.event.fact, Ticked):
            return False
        return signal.delay > late.after


def counts(put: Put) -> bool:
    """Whether events count: it is enabled, or pauses and keeps, and does not drain."""
    return holds(put) and not put.draining


def holds(put: Put) -> bool:
    """Whether what was accumulated stays: it is enabled, or pauses and keeps."""
    return put.enabled or put.keep


class Numbered(NamedTuple):
    """A job by its number: `place` is that of the signal in the log that completed it."""

    place: int
    generation: int
    sequence: int
    reported: tuple[Reports, ...]


def numbered(log: Iterable[Stamped]) -> list[Numbered]:
    """The jobs of a log up to its last signal, of one schedule that does not correlate. Each definition that comes into
    force numbers its jobs from 1.
    """
    found, jobs, sequence = Rerun(), list[Numbered](), 0
    for place, (at, signal) in enumerate(log):
        for step in (lambda: found.elapse(at), lambda: found.tell(at, signal)):  # noqa: B023 - called at once
            before, known = found.put, len(found.jobs)
            step()
            sequence = sequence if found.put is before else 0
            for job in found.jobs[known:]:
                sequence += 1
                jobs.append(Numbered(place, job.generation, sequence, job.reported))
    return jobs


def progress(log: Iterable[Stamped]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Leaf → how much and which events it has at the end of a log, of one schedule that does not correlate."""
    found = Rerun()
    for at, signal in log:
        found.tell(at, signal)
    leaves = [] if found.only is None else found.only.leaves
    return {leaf_id(leaf.tally.leaf): summed(leaf.tally.has) for leaf in leaves if leaf.tally.has}


def rerun(log: Sequence[Stamped], end: datetime) -> Rerun:
    """The whole log, and time up to `end`."""
    found = Rerun()
    for at, signal in log:
        found.tell(at, signal)
    found.elapse(end)
    return found


def bound_of(trigger: Trigger) -> Per | None:
    """What bounds the keys of a trigger that correlates."""
    return next(pers(trigger), None)


def pers(trigger: Trigger) -> Iterator[Per]:
    if isinstance(trigger, Per):
        yield trigger
    for child in children(trigger):
        yield from pers(child)


def keys_in(trigger: Trigger, event: Event) -> Iterator[str]:
    """The keys an event has for some leaf of the trigger."""
    match event.fact:
        case PartitionsAdded(partitions=partitions):
            values = [partition.values for partition in partitions]
        case CustomHappened(attributes=only) | ProgramReached(arguments=only):
            values = [only]
        case _:
            values = []
    for per in pers(trigger):
        for each in values:
            yield from keys_of(per, each)


def carry(old: Tree, new: Tree, put: Put) -> None:
    for leaf in new.leaves:
        for heir in old.leaves:
            if about(leaf.tally.leaf) == about(heir.tally.leaf):
                leaf.tally.has, leaf.tally.level = heir.tally.has, heir.tally.level
        while put.consumption is Consumption.LATEST and leaf.tally.spares_its_oldest:
            leaf.take(1)


def about(leaf: LeafTrigger) -> object:
    match leaf:
        case Partitions(dataset=dataset, match=match):
            return "p", dataset, match
        case CustomEvent(name=name, match=match):
            return "e", name, match
        case _:
            return leaf


def can_keep(trigger: Trigger) -> bool:
    """Whether a change of how much its leaves want can be followed here: no two leaves are about the same."""
    parts = trigger.triggers if isinstance(trigger, AllOf) else (trigger,)
    simple = all(isinstance(each, Partitions | CustomEvent) for each in parts)
    return simple and len({about(each) for each in parts}) == len(parts)  # type: ignore[arg-type]

"""What a trigger should do, said as simply as possible: a tree of little machines, one for each part of the trigger.

A machine changes with each event and with time; each question builds the tree anew and feeds it the whole log. Only
leaves are shared between parts: equal ones in the same scope are one. Each part that depends on the clock is a scope.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from streamsched.domain.events.event import Event
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    AtLeast,
    OnExpiry,
    Per,
    Quiet,
    Silence,
    SinceLastRun,
    Then,
    Trigger,
    Unless,
    Within,
    leaf_id,
)
from tests.support.tally import Tally, Unit

#: Leaf, how much, ids of the events.
Reports = tuple[str, int, tuple[str, ...]]


def summed(units: Sequence[Unit]) -> tuple[int, tuple[str, ...]]:
    """How much they are, and the ids of their events."""
    return sum(unit.size for unit in units), tuple(dict.fromkeys(unit.event for unit in units))


class Machine:
    """A part of the trigger."""

    def inside(self) -> Sequence[Machine]:
        return ()

    def holds(self) -> bool:
        raise NotImplementedError

    def below(self) -> Iterator[Machine]:
        """It and all in it, inner ones first, a shared leaf as often as it occurs."""
        for part in self.inside():
            yield from part.below()
        yield self

    def used(self, use: Use) -> None:
        """Enters what a satisfaction uses up."""
        raise NotImplementedError


@dataclass(eq=False)
class Use:
    """What a satisfaction uses up: of some leaves what they ask for, of others all they have."""

    exactly: set[Machine] = field(default_factory=set)
    wholly: set[Machine] = field(default_factory=set)
    timed: list[Timed] = field(default_factory=list)

    def all_of(self, machine: Machine) -> None:
        for each in machine.below():
            if isinstance(each, Leaf):
                self.wholly.add(each)
            if isinstance(each, Timed):
                self.timed.append(each)


@dataclass(eq=False)
class Leaf(Machine):
    """Counts events. Before its gates hold it counts nothing, and notes only the level of a stream."""

    tally: Tally
    gates: tuple[Machine, ...]
    veto: bool

    def holds(self) -> bool:
        return self.tally.enough

    def used(self, use: Use) -> None:
        use.exactly.add(self)

    def take(self, some: int) -> list[Unit]:
        has = self.tally.has
        self.tally.has = has[some:]
        self.tally.full = sum(unit.size for unit in self.tally.has) >= self.tally.asks
        return has[:some]


@dataclass(eq=False)
class Group(Machine):
    """So many of its parts."""

    wanted: int
    parts: Sequence[Machine]

    def inside(self) -> Sequence[Machine]:
        return self.parts

    def holds(self) -> bool:
        return sum(part.holds() for part in self.parts) >= self.wanted

    def used(self, use: Use) -> None:
        for part in [part for part in self.parts if part.holds()][: self.wanted]:
            part.used(use)


@dataclass(eq=False)
class Timed(Machine):
    """A part that depends on the clock: since when it waits, and whether it holds, until the whole fires."""

    timed: Then | Unless | Within | Quiet | Silence
    parts: Sequence[Machine]
    veto: bool
    after: Timed | None
    since: datetime | None = None
    last: datetime | None = None
    held: bool = False
    stopped: bool = False

    def inside(self) -> Sequence[Machine]:
        return self.parts

    def holds(self) -> bool:
        return self.held

    @property
    def first(self) -> Machine:
        return self.parts[0]

    def settle(self, fresh: set[Leaf], at: datetime) -> None:
        if self.held:
            return
        touched = any(each in fresh for each in self.below() if isinstance(each, Leaf))
        match self.timed:
            case Then():
                if self.first.holds() and self.since is None:
                    self.since = at
                    for silence in silences_in(self.parts[1]):
                        if silence.after is self:
                            silence.last = at
                self.held = self.first.holds() and self.parts[1].holds()
            case Unless(within=limit):
                if self.parts[1].holds():
                    start_over(self)
                elif self.first.holds():
                    self.since = self.since or at
                    self.held = limit is None
            case Within():
                self.held = self.first.holds()
                self.since = (self.since or at) if self.begun() else None
            case Quiet():
                if self.first.holds() and (self.since is None or touched):
                    self.since, self.last = self.since or at, at
            case Silence():
                self.last = at if touched else self.last
            case _:
                assert_never(self.timed)

    def begun(self) -> bool:
        """Something in it has counted, or holds; what must not come does neither."""
        return any(
            bool(each.tally.has)
            if isinstance(each, Leaf)
            else isinstance(each, Timed)
            and each is not self
            and (each.held or (each.since is not None and not isinstance(each.timed, Silence)))
            for each in self.below()
            if not (isinstance(each, Leaf | Timed) and each.veto and not self.veto)
        )

    def due(self) -> datetime | None:
        """When time alone changes it."""
        if self.held:
            return None
        match self.timed:
            case Then(within=limit) | Unless(within=limit) | Within(duration=limit):
                return None if self.since is None or limit is None else self.since + limit
            case Quiet(duration=rest, at_most=most):
                if self.since is None or self.last is None:
                    return None
                return self.last + rest if most is None else min(self.last + rest, self.since + most)
            case Silence(duration=rest):
                return None if self.last is None else self.last + rest
            case _:
                assert_never(self.timed)

    def expire(self) -> None:
        """Its time is up."""
        match self.timed:
            case Then() | Within(then=OnExpiry.RESET):
                start_over(self)
            case _:
                self.held = True

    def rewind(self) -> None:
        """It begins anew. A silence that has not held goes on being measured, unless it follows what begins anew."""
        if self.held or not isinstance(self.timed, Silence):
            self.since, self.last, self.held = None, None, False
        if isinstance(self.timed, Then):
            for silence in silences_in(self.parts[1]):
                silence.last, silence.held = None, False

    def used(self, use: Use) -> None:
        use.timed.append(self)
        match self.timed:
            case Then():
                self.first.used(use)
                self.parts[1].used(use)
            case Unless():
                self.first.used(use)
            case Within():
                if self.first.holds():
                    self.first.used(use)
                else:
                    use.all_of(self)
            case Quiet():
                use.all_of(self)
            case Silence():
                pass
            case _:
                assert_never(self.timed)


def silences_in(machine: Machine) -> list[Timed]:
    return [each for each in machine.below() if isinstance(each, Timed) and isinstance(each.timed, Silence)]


def befores(timed: Timed) -> Iterator[Timed]:
    """The `then` in whose second part it is, and those around that."""
    while timed.after is not None:
        timed = timed.after
        yield timed


def start_over(machine: Machine) -> None:
    """Nothing in it has come."""
    for each in machine.below():
        if isinstance(each, Leaf):
            each.take(len(each.tally.has))
    for each in machine.below():
        if isinstance(each, Timed):
            each.rewind()


class Tree:
    """A whole trigger, and what it says when it holds."""

    def __init__(
        self, trigger: Trigger, generation: int, consumption: Consumption, at: datetime, key: str = ""
    ) -> None:
        self.generation = generation
        self.consumption = consumption
        self.key = key
        self.leaves: list[Leaf] = []
        self.root = self._made(trigger, {}, None, (), veto=False, after=None)
        for silence in silences_in(self.root):
            if silence.after is None:
                silence.last = at

    def _made(
        self,
        trigger: Trigger,
        scope: dict[object, Leaf],
        per: Per | None,
        gates: tuple[Machine, ...],
        *,
        veto: bool,
        after: Timed | None,
    ) -> Machine:
        def made(
            child: Trigger,
            inside: dict[object, Leaf],
            *more: Machine,
            vetoes: bool = veto,
            behind: Timed | None = after,
        ) -> Machine:
            return self._made(child, inside, per, (*gates, *more), veto=vetoes, after=behind)

        match trigger:
            case AllOf(triggers=children):
                return Group(len(children), [made(child, scope) for child in children])
            case AnyOf(triggers=children):
                return Group(1, [made(child, scope) for child in children])
            case AtLeast(count=wanted, triggers=children):
                return Group(wanted, [made(child, scope) for child in children])
            case Per(trigger=only):
                return self._made(only, scope, trigger, gates, veto=veto, after=after)
            case Then(first=first, second=second):
                timed = Timed(trigger, (), veto, after)
                before = made(first, {})
                timed.parts = (before, made(second, {}, before, behind=timed))
                return timed
            case Unless(wanted=wanted, veto=unwanted):
                return Timed(trigger, (made(wanted, {}), made(unwanted, {}, vetoes=True)), veto, after)
            case Within(trigger=only) | Quiet(trigger=only) | Silence(of=only):
                return Timed(trigger, (made(only, {}),), veto, after)
            case _:
                leaf = scope.get((trigger, per))
                if leaf is None:
                    leaf = scope[(trigger, per)] = Leaf(Tally(trigger, per, self.key), gates, veto)
                    self.leaves.append(leaf)
                return leaf

    @property
    def timed(self) -> list[Timed]:
        return [each for each in self.root.below() if isinstance(each, Timed)]

    def hear(self, event: Event, at: datetime) -> bool:
        """Whether it counted anywhere. Time has passed to `at` already, and `fire` comes next."""
        deaf = [leaf for leaf in self.leaves if not all(gate.holds() for gate in leaf.gates)]
        fresh: set[Leaf] = set()
        for leaf in self.leaves:
            heard = leaf.tally.hear(event, self.generation)
            for units in [[unit] for unit in heard] if leaf.tally.rolls else [heard]:
                if leaf in deaf or not units or not leaf.tally.add(units):
                    continue
                fresh.add(leaf)
                while self.consumption is Consumption.LATEST and leaf.tally.spares_its_oldest:
                    leaf.take(1)
        self.settle(fresh, at)
        return bool(fresh)

    def settle(self, fresh: set[Leaf], at: datetime) -> None:
        """Inner parts first."""
        for each in self.timed:
            each.settle(fresh, at)
            if isinstance(each.timed, Silence) and isinstance(each.first, Leaf):
                each.first.take(len(each.first.tally.has))

    def stop_silences(self) -> None:
        """What must not come does not come: no event counts any more. Those that hold already go on to hold."""
        for silence in silences_in(self.root):
            if silence.last is not None and not silence.held:
                silence.last, silence.stopped = None, True

    def begin_silences(self, at: datetime) -> None:
        """Measures those that were stopped, and do not follow what has yet to come."""
        for silence in silences_in(self.root):
            if silence.stopped and silence.last is None and all(each.first.holds() for each in befores(silence)):
                silence.last, silence.stopped = at, False

    def next_due(self) -> datetime | None:
        return min((due for each in self.timed if (due := each.due()) is not None), default=None)

    def expire(self, at: datetime) -> None:
        """All that is due at this instant, inner parts first; `fire` comes next."""
        while True:
            expiring = next((each for each in self.timed if (due := each.due()) is not None and due <= at), None)
            if expiring is None:
                return
            expiring.expire()
            self.settle(set(), at)

    def fire(self, at: datetime) -> list[tuple[Reports, ...]]:
        """What goes with each job, as long as the trigger holds."""
        jobs: list[tuple[Reports, ...]] = []
        while self.root.holds():
            use = Use()
            if self.consumption is Consumption.PAIRED:
                self.root.used(use)
            else:
                use.wholly |= set(self.leaves)
                use.timed += self.timed
            jobs.append(self._take(use))
            self.settle(set(), at)
        return jobs

    def _take(self, use: Use) -> tuple[Reports, ...]:
        reported: list[Reports] = []
        for leaf in self.leaves:
            some: list[Unit] = []
            if leaf in use.wholly:
                some = leaf.take(len(leaf.tally.has))
            elif leaf in use.exactly:
                some = leaf.take(leaf.tally.oldest_enough)
            elif isinstance(leaf.tally.leaf, SinceLastRun):  # whatever is satisfied, there will be a run
                leaf.take(len(leaf.tally.has))
            if some and not leaf.veto:
                reported.append((leaf_id(leaf.tally.leaf), *summed(some)))
        for each in use.timed:
            each.rewind()
        for each in use.timed:
            if isinstance(each.timed, Unless) or (isinstance(each.timed, Then) and not each.first.holds()):
                start_over(each.parts[1])
        return tuple(reported)

    def empty(self, *, silences: bool = True) -> bool:
        """Nothing has come and nothing is waited for; of `silences` that are being measured only when asked."""
        waiting = (each.held or each.since is not None or (silences and each.last is not None) for each in self.timed)
        return not any(leaf.tally.has for leaf in self.leaves) and not any(waiting)

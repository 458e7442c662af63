"""What a leaf counts, unit by unit, said as simply as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamsched.domain.event import CustomHappened, Event, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.domain.trigger import CustomEvent, Partitions, Per, ProgramStatus, StreamGrowth, Total, leaf_id
from streamsched.domain.trigger import Leaf as LeafTrigger
from streamsched.testing.oracle import asked, sizes, suits
from streamsched.testing.periods import all_periods, keys_of, period_of


class Unit(NamedTuple):
    """The smallest thing a leaf counts: one partition, byte, time or period. Those of a total differ in size."""

    event: str
    size: int = 1
    period: str = ""


@dataclass(eq=False)
class Tally:
    """What one leaf has counted, under one key."""

    leaf: LeafTrigger
    per: Per | None
    key: str
    has: list[Unit] = field(default_factory=list)
    level: int | None = None

    @property
    def asks(self) -> int:
        if self.per is None or self.per.rolled_up_to is None:
            return asked(self.leaf)
        periods = all_periods(self.per, self.key)
        return periods if self.per.of is None else min(self.per.of, periods)

    @property
    def enough(self) -> bool:
        return sum(unit.size for unit in self.has) >= self.asks

    @property
    def oldest_enough(self) -> int:
        """How many of the oldest units are enough."""
        return next(n for n in range(len(self.has) + 1) if sum(unit.size for unit in self.has[:n]) >= self.asks)

    @property
    def spares_its_oldest(self) -> bool:
        return sum(unit.size for unit in self.has[1:]) >= self.asks

    def hear(self, event: Event, generation: int) -> list[Unit]:
        """The units an event brings, in order."""
        match self.leaf, event.fact:
            case ((Partitions(dataset=wanted) | Total(dataset=wanted)), PartitionsAdded(dataset=dataset) as fact):
                return self._partitions(event.id, fact) if dataset == wanted else []
            case ProgramStatus(program=wanted, outcomes=some), ProgramReached(program=program, outcome=outcome) as fact:
                return self._one(event.id, fact.arguments) if program == wanted and outcome in some else []
            case CustomEvent(name=wanted, match=match), CustomHappened(name=name, attributes=values):
                return self._one(event.id, values) if name == wanted and suits(match, values) else []
            case StreamGrowth(stream=wanted), StreamSize(stream=stream) as fact:
                return [Unit(event.id)] * self._growth(fact) if stream == wanted else []
            case _, Ticked(generation=of, leaf=name):
                return [Unit(event.id)] if of == generation and name == leaf_id(self.leaf) else []
            case _:
                return []

    def _one(self, event: str, values: Mapping[str, str]) -> list[Unit]:
        if self.per is None:
            return [Unit(event)]
        if self.key not in keys_of(self.per, values):
            return []
        return self._new([Unit(event, 1, period_of(self.per, values))])

    def _partitions(self, event: str, fact: PartitionsAdded) -> list[Unit]:
        leaf = self.leaf
        named = fact.partitions
        if self.per is not None:
            named = tuple(each for each in named if self.key in keys_of(self.per, each.values))
        if isinstance(leaf, Total):
            part = PartitionsAdded(fact.dataset, named, max(1, len(named)))
            return [Unit(event, size) for size in sizes(leaf, part) if size]
        assert isinstance(leaf, Partitions)
        if self.per is not None:
            some = [each for each in named if suits(leaf.match, each.values)]
            return self._new([Unit(event, 1, period_of(self.per, each.values)) for each in some])
        if not leaf.match.columns:
            return [Unit(event)] * fact.count
        return [Unit(event) for each in named if suits(leaf.match, each.values)]

    def _new(self, units: list[Unit]) -> list[Unit]:
        """Each period of a roll-up once; those of one commit in the order in which it names them first."""
        if self.per is None or self.per.rolled_up_to is None:
            return units
        firsts: dict[str, Unit] = {}
        for unit in units:
            firsts.setdefault(unit.period, unit)
        return list(firsts.values())

    def knows(self, unit: Unit) -> bool:
        """Whether it has that period of a roll-up already."""
        rolls = self.per is not None and self.per.rolled_up_to is not None
        return rolls and any(each.period == unit.period for each in self.has)

    def _growth(self, fact: StreamSize) -> int:
        before = self.level
        if not fact.absolute:
            self.level = None if before is None else before + fact.bytes
            return fact.bytes
        self.level = fact.bytes
        if before is None:
            return 0
        return fact.bytes - before if fact.bytes >= before else fact.bytes

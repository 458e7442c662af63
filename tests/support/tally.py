"""What a leaf counts, unit by unit, said as simply as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.match import Glob, Match, OneOf
from streamsched.domain.triggers.trigger import (
    CustomEvent,
    Partitions,
    Per,
    ProgramStatus,
    SinceLastRun,
    StreamGrowth,
    Total,
    leaf_id,
)
from streamsched.domain.triggers.trigger import Leaf as LeafTrigger
from tests.support.periods import all_periods, keys_of, period_of


class Unit(NamedTuple):
    """The smallest thing a leaf counts: one partition, byte, time or period. Those of a total differ in size. `keys`
    are of the partitions it stands for, where a partition counts once.
    """

    event: str
    size: int = 1
    period: str = ""
    keys: frozenset[str] = frozenset()


@dataclass(eq=False)
class Tally:
    """What one leaf has counted, under one key."""

    leaf: LeafTrigger
    per: Per | None
    key: str
    has: list[Unit] = field(default_factory=list)
    level: int | None = None
    full: bool = False

    @property
    def asks(self) -> int:
        if self.per is None or self.per.rolled_up_to is None:
            return asked(self.leaf)
        periods = all_periods(self.per, self.key)
        return periods if self.per.of is None else min(self.per.of, periods)

    @property
    def enough(self) -> bool:
        """It has had enough since units were taken: a smaller size in the place of a larger one changes nothing."""
        return self.full or sum(unit.size for unit in self.has) >= self.asks

    @property
    def oldest_enough(self) -> int:
        """How many of the oldest units are enough; what adds nothing goes with what came before it in its commit."""
        has, asks = self.has, self.asks
        sums = accumulate((unit.size for unit in has), initial=0)
        some = next((n for n, size in enumerate(sums) if size >= asks), len(has))
        while some < len(has) and not has[some].size and has[some].event == has[some - 1].event:
            some += 1
        return some

    @property
    def spares_its_oldest(self) -> bool:
        return sum(unit.size for unit in self.has[1:]) >= self.asks

    def hear(self, event: Event, generation: int) -> list[Unit]:
        """The units an event brings, in order."""
        match self.leaf, event.fact:
            case ((Partitions(dataset=wanted) | Total(dataset=wanted)), PartitionsAdded(dataset=dataset) as fact):
                return self._partitions(event.id, fact) if dataset == wanted else []
            case ProgramStatus(program=wanted, outcomes=some, match=match), ProgramReached(arguments=values) as fact:
                asked_for = fact.program == wanted and fact.outcome in some and suits(match, values)
                return self._one(event.id, values) if asked_for else []
            case CustomEvent(name=wanted, match=match), CustomHappened(name=name, attributes=values):
                return self._one(event.id, values) if name == wanted and suits(match, values) else []
            case StreamGrowth(stream=wanted), StreamSize(stream=stream) as fact:
                return [Unit(event.id)] * self._growth(fact) if stream == wanted else []
            case SinceLastRun(), Ticked() if self.has:
                return []
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
        if isinstance(leaf, Total) and leaf.distinct and not self.rolls:
            suited = {each.key: each for each in named if suits(leaf.match, each.values)}
            some = [Unit(event, sized(leaf, each), "", frozenset({key})) for key, each in suited.items()]
            known = {key for unit in self.has for key in unit.keys}
            return some if any(unit.size or unit.keys & known for unit in some) else []
        if isinstance(leaf, Total):
            part = PartitionsAdded(fact.dataset, named, max(1, len(named)))
            return [Unit(event, size) for size in sizes(leaf, part) if size]
        assert isinstance(leaf, Partitions)
        if self.per is not None and (self.rolls or not leaf.distinct):
            some = [each for each in named if suits(leaf.match, each.values)]
            return self._new([Unit(event, 1, period_of(self.per, each.values), self._key(each)) for each in some])
        unnamed = 0 if leaf.match.columns or self.per is not None else fact.count - len(named)
        suited = [each for each in named if suits(leaf.match, each.values)]
        if leaf.distinct:
            last = {each.key: each for each in suited}
            return [Unit(event, 1, "", self._key(each)) for each in last.values()] + [Unit(event)] * unnamed
        return [Unit(event)] * (len(suited) + unnamed)

    def _key(self, partition: Partition) -> frozenset[str]:
        return frozenset({partition.key}) if isinstance(self.leaf, Partitions) and self.leaf.distinct else frozenset()

    def _new(self, units: list[Unit]) -> list[Unit]:
        """Each period of a roll-up once; those of one commit in the order in which it names them first."""
        if self.per is None or self.per.rolled_up_to is None:
            return units
        firsts: dict[str, Unit] = {}
        for unit in units:
            first = firsts.setdefault(unit.period, unit)
            firsts[unit.period] = first._replace(keys=first.keys | unit.keys)
        return list(firsts.values())

    @property
    def rolls(self) -> bool:
        return self.per is not None and self.per.rolled_up_to is not None

    def add(self, units: list[Unit]) -> bool:
        """Counts the units of an event. Each takes the place of those with one of its keys. False when none counts: a
        period of a roll-up that it has already, under other keys.
        """
        if not self.rolls and not any(unit.keys for unit in units):
            self.has = [*self.has, *units]
            self.full = self.enough
            return bool(units)
        counted = False
        for unit in units:
            near = [each for each in self.has if not self.rolls or each.period == unit.period]
            older = [each for each in near if each.keys & unit.keys]
            if not older and self.rolls and near:
                continue
            counted = True
            self.has = [each for each in self.has if each not in older]
            self.has.append(unit._replace(keys=unit.keys.union(*(each.keys for each in older))))
        self.full = self.enough
        return counted

    def _growth(self, fact: StreamSize) -> int:
        before = self.level
        if not fact.absolute:
            self.level = None if before is None else before + fact.bytes
            return fact.bytes
        self.level = fact.bytes
        if before is None:
            return 0
        return fact.bytes - before if fact.bytes >= before else fact.bytes


def asked(leaf: LeafTrigger) -> int:
    match leaf:
        case Partitions(count=wanted) | CustomEvent(times=wanted) | ProgramStatus(times=wanted):
            return wanted
        case StreamGrowth(bytes=wanted) | Total(amount=wanted):
            return wanted
        case _:
            return 1


def sizes(leaf: Total, fact: PartitionsAdded) -> list[int]:
    """The sizes that are known of the partitions that a total asks for."""
    wanted = [partition for partition in fact.partitions if suits(leaf.match, partition.values)]
    known = [partition.rows if leaf.measure == "rows" else partition.bytes for partition in wanted]
    return [size for size in known if size is not None]


def sized(leaf: Total, partition: Partition) -> int:
    """How large a partition is; one without a reported size adds nothing."""
    return (partition.rows if leaf.measure == "rows" else partition.bytes) or 0


def suits(match: Match, values: Mapping[str, str]) -> bool:
    """Whether values are as asked, patterns read letter by letter."""
    for column, wanted in match.columns:
        if column not in values:
            return False
        if isinstance(wanted, OneOf) and values[column] not in wanted.values:
            return False
        if isinstance(wanted, Glob) and not like(wanted.pattern, values[column]):
            return False
    return True


def like(pattern: str, text: str) -> bool:
    """Whether a text is like a pattern of stars, question marks and plain characters."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(like(pattern[1:], text[skip:]) for skip in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and like(pattern[1:], text[1:])

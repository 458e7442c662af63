"""A trigger, taken apart once so that a signal touches only the leaves it is about.

Derived from the trigger alone and never stored or compared. Each distinct leaf has one bit, and so has each part that
minds the clock, so what holds is one whole number and a group is judged by one `&`. Equal leaves are one, but for those
under a part that minds the clock: what it starts over or keeps waiting is nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from streamsched.domain.composite import AllOf, AnyOf, AtLeast
from streamsched.domain.correlation import Per
from streamsched.domain.leaf import (
    At,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Measure,
    Partitions,
    Total,
    kin,
    leaf_id,
    leaf_keys,
)
from streamsched.domain.leaf import needed as needed_by
from streamsched.domain.match import ANYTHING, Match
from streamsched.domain.timed import Quiet, Silence, Then, Timed, Unless, Within
from streamsched.domain.trigger import Composite, Trigger, check_correlation
from streamsched.domain.verdict import Judged, Verdict


@dataclass(frozen=True, slots=True)
class Node:
    """A composite: `wanted` of the leaves and watches of `mask` and of the composites of `nodes`, taken together.

    Attributes:
        children: their bits and those composites, in the trigger's order.
    """

    wanted: int
    mask: int
    nodes: tuple[Node, ...]
    children: tuple[int | Node, ...]

    def holds(self, held: int) -> bool:
        """Whether this node holds when the leaves of `held` do."""
        missing = self.wanted - (held & self.mask).bit_count()
        if missing > len(self.nodes):
            return False
        for node in self.nodes:
            if missing <= 0:
                break
            missing -= node.holds(held)
        return missing <= 0

    def used(self, held: int) -> int:
        """Of the leaves of `held`, those that make this node hold: no more than it wants, those written first."""
        missing, chosen = self.wanted, 0
        for child in self.children:
            if not missing:
                break
            if isinstance(child, Node):
                if child.holds(held):
                    chosen |= child.used(held)
                    missing -= 1
            elif held & child:
                chosen |= child
                missing -= 1
        return chosen


@dataclass(frozen=True, slots=True)
class Slot:
    """One distinct leaf.

    Attributes:
        id: of the slot; the leaf's own, with its place after a `#` when it stands under a part that minds the clock.
        leaf: id of the leaf.
        kin: what the leaf is about, without how much it wants.
        needed: in its own unit (partitions, bytes, rows, times; one tick). A roll-up's depends on the key.
        match: which partitions or events it counts.
        measure: what it counts of a partition; None counts the partition itself.
        plain: it counts whole events, with no match and no measure.
        per: what gives an event its key; None in a trigger that does not correlate.
        after: what must hold before it counts anything: the first part of each `then` whose second it stands in.
        veto: it belongs to what must not come, so no job is told of it.
        breaks: it only breaks a silence and counts nothing.
        counted: the verdict on an event that counts in this leaf alone.
    """

    id: str
    needed: int
    bit: int
    match: Match = ANYTHING
    measure: Measure | None = None
    plain: bool = True
    leaf: str = ""
    kin: str = ""
    per: Per | None = None
    after: tuple[Node, ...] = ()
    veto: bool = False
    breaks: bool = False
    counted: Judged = field(default=Judged(Verdict.COUNTED), compare=False, repr=False)

    @property
    def rolls(self) -> bool:
        """It counts periods, each event standing for one."""
        return self.per is not None and self.per.rolled_up_to is not None

    def wanted(self, cell: str) -> int:
        """How much it needs under this key."""
        if self.per is None or self.per.rolled_up_to is None:
            return self.needed
        return self.per.wanted(cell) or self.needed


@dataclass(frozen=True, slots=True)
class Watch:
    """A part of the trigger that minds the clock.

    Attributes:
        place: in `Plan.watches`; those inside it come before it.
        first: what it waits for: the first of two, the wanted one, the only one. A silence's is what breaks it.
        second: what comes then, or what must not come; None in the others.
        mask: the bits of every leaf and watch inside it.
        second_mask: those inside its second part.
        slots: ids of the leaves inside it.
        after: what must hold before its events count: the first part of each `then` whose second it stands in.
        veto: it belongs to what must not come.
    """

    place: int
    bit: int
    timed: Timed
    first: Node
    second: Node | None
    mask: int
    second_mask: int
    slots: tuple[str, ...]
    after: tuple[Node, ...]
    veto: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """The trigger as it was written, each part with what stands for it.

    Attributes:
        node: what holds when this does.
        is_for: the leaf's slot, or the watch; None for a composite and for a `per`.
    """

    trigger: Trigger
    node: Node
    is_for: Slot | Watch | None
    children: tuple[Shape, ...]

    @property
    def bit(self) -> int:
        """0 for what has none of its own."""
        return 0 if self.is_for is None else self.is_for.bit


@dataclass(frozen=True, slots=True)
class Plan:
    """What the fold looks up.

    Attributes:
        slots: the distinct leaves, left to right.
        by_key: event key → the leaves that listen to it.
        by_tick: id of a time leaf → that leaf.
        shape: the trigger over the bits.
        watches: the parts that mind the clock, inner ones first.
        per: what bounds the open keys; None in a trigger that does not correlate.
    """

    slots: tuple[Slot, ...]
    by_key: Mapping[str, tuple[Slot, ...]]
    by_tick: Mapping[str, tuple[Slot, ...]]
    shape: Shape
    watches: tuple[Watch, ...]
    per: Per | None
    root: Node


def wanted(composite: Composite) -> int:
    """How many of its children a composite wants."""
    match composite:
        case AllOf(triggers=children):
            return len(children)
        case AnyOf():
            return 1
        case AtLeast(count=count):
            return count
        case _:
            assert_never(composite)


def planned(trigger: Trigger) -> Plan:
    """The plan of a trigger.

    Raises:
        InvalidDefinitionError: it correlates in a way that can never hold.
    """
    check_correlation(trigger)
    draft = _Draft()
    shape = draft.shape(trigger, _Where())
    slots = tuple(draft.slots.values())
    return Plan(slots, draft.by_key, draft.by_tick, shape, tuple(draft.watches), draft.per, shape.node)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where in the trigger a leaf stands."""

    place: str = ""
    per: Per | None = None
    after: tuple[Node, ...] = ()
    veto: bool = False
    breaks: bool = False


@dataclass(slots=True)
class _Draft:
    slots: dict[str, Slot] = field(default_factory=dict)
    by_key: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    by_tick: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    watches: list[Watch] = field(default_factory=list)
    per: Per | None = None
    bits: int = 0
    places: int = 0

    def shape(self, trigger: Trigger, where: _Where) -> Shape:
        match trigger:
            case AllOf() | AnyOf() | AtLeast():
                below = tuple(self.shape(child, where) for child in trigger.triggers)
                return Shape(trigger, _node(trigger, below), None, below)
            case Per(trigger=only):
                self.per = self.per or trigger
                inside = self.shape(only, replace(where, per=trigger))
                return Shape(trigger, inside.node, None, (inside,))
            case Then() | Unless() | Within() | Quiet() | Silence():
                return self._watch(trigger, where)
            case _:
                slot = self._slot(trigger, where)
                return Shape(trigger, Node(1, slot.bit, (), (slot.bit,)), slot, ())

    def _slot(self, leaf: Leaf, where: _Where) -> Slot:
        name = f"{leaf_id(leaf)}#{where.place}" if where.place else leaf_id(leaf)
        if where.per is not None and where.per != self.per:
            name = f"{name}%{_way(where.per)}"
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = _slot(leaf, name, self._next_bit(), where)
            if isinstance(leaf, Cron | Every | At):
                self.by_tick[slot.leaf] = (*self.by_tick.get(slot.leaf, ()), slot)
            for key in leaf_keys(leaf):
                self.by_key[key] = (*self.by_key.get(key, ()), slot)
        return slot

    def _watch(self, timed: Timed, where: _Where) -> Shape:
        """What is inside it comes first."""
        self.places += 1
        inside = replace(where, place=f"{where.place}.{self.places}" if where.place else str(self.places))
        slots, bits = len(self.slots), self.bits
        match timed:
            case Silence(of=only):
                below = (self.shape(only, replace(inside, breaks=True)),)
            case Within(trigger=only) | Quiet(trigger=only):
                below = (self.shape(only, inside),)
            case Then(first=one) | Unless(wanted=one):
                below = (self.shape(one, replace(inside, place=f"{inside.place}a")),)
            case _:
                assert_never(timed)
        first, between, second = below[0].node, self.bits, None
        inside = replace(inside, place=f"{inside.place}b")
        if isinstance(timed, Then):
            below = (*below, self.shape(timed.second, replace(inside, after=(*where.after, first))))
        elif isinstance(timed, Unless):
            below = (*below, self.shape(timed.veto, replace(inside, veto=True)))
        if len(below) > 1:
            second = below[1].node
        names, mask, second_mask = tuple(self.slots)[slots:], self._bits_since(bits), self._bits_since(between)
        bit = self._next_bit()
        watch = Watch(len(self.watches), bit, timed, first, second, mask, second_mask, names, where.after, where.veto)
        self.watches.append(watch)
        return Shape(timed, Node(1, watch.bit, (), (watch.bit,)), watch, below)

    def _bits_since(self, bits: int) -> int:
        return ((1 << self.bits) - 1) & ~((1 << bits) - 1)

    def _next_bit(self) -> int:
        self.bits += 1
        return 1 << (self.bits - 1)


def _node(composite: Composite, below: tuple[Shape, ...]) -> Node:
    mask = 0
    children: list[int | Node] = []
    for child in below:
        if child.bit & ~mask:
            mask |= child.bit
            children.append(child.bit)
        else:  # a composite, or a leaf that is named again and so counts again
            children.append(child.node)
    return Node(wanted(composite), mask, tuple(each for each in children if isinstance(each, Node)), tuple(children))


def _way(per: Per) -> str:
    """How it gives an event its keys."""
    grains = [per.grain, per.rolled_up_to, per.of, per.fanned_out_to]
    return ":".join(["+".join(per.by), *("" if each is None else str(each) for each in grains)])


def _slot(leaf: Leaf, name: str, bit: int, where: _Where) -> Slot:
    match leaf:
        case Partitions(match=match) | CustomEvent(match=match):
            measure, plain = None, not match
        case Total(match=match, measure=measure):
            plain = False
        case _:
            match, measure, plain = ANYTHING, None, True
    return Slot(
        name,
        needed_by(leaf),
        bit,
        match,
        measure,
        plain,
        leaf_id(leaf),
        kin(leaf),
        where.per,
        where.after,
        where.veto,
        where.breaks,
        Judged(Verdict.COUNTED, (leaf_id(leaf),)),
    )

"""The plan of a trigger: its compiled form, by which a signal touches only the leaves it concerns.

Derived from the trigger alone; not stored or compared. Each distinct leaf and each timed node has one bit, so the set
of those that hold is one integer and a composite is evaluated by one `&`. Equal leaves share a slot, except under a
timed node, which owns the state of its leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from streamsched.domain.events.match import ANYTHING, Match
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.domain.time.period import NO_ZONE
from streamsched.domain.triggers.composite import AllOf, AnyOf, AtLeast
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.leaf import (
    At,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Measure,
    Partitions,
    ProgramStatus,
    SinceLastRun,
    Total,
    compatible_id,
    leaf_id,
    leaf_keys,
)
from streamsched.domain.triggers.leaf import needed_amount as needed_by
from streamsched.domain.triggers.on_correction import OnCorrection
from streamsched.domain.triggers.timed import Quiet, Silence, Then, Timed, Unless, Within
from streamsched.domain.triggers.trigger import Composite, Trigger, check_correlation, correlations


@dataclass(frozen=True, slots=True)
class Node:
    """A composite: holds when `wanted` of its children hold: leaves and timed nodes (`mask`), composites (`nodes`).

    Attributes:
        children: bits and composites in the trigger's order.
    """

    wanted: int
    mask: int
    nodes: tuple[Node, ...]
    children: tuple[int | Node, ...]

    def holds(self, held: int) -> bool:
        """Whether this node holds, given the bits that hold."""
        missing = self.wanted - (held & self.mask).bit_count()
        if missing > len(self.nodes):
            return False
        for node in self.nodes:
            if missing <= 0:
                break
            missing -= node.holds(held)
        return missing <= 0

    def used_bits(self, held: int) -> int:
        """The bits of `held` that make this node hold: as many as it wants, in the order written."""
        missing, chosen = self.wanted, 0
        for child in self.children:
            if not missing:
                break
            if isinstance(child, Node):
                if child.holds(held):
                    chosen |= child.used_bits(held)
                    missing -= 1
            elif held & child:
                chosen |= child
                missing -= 1
        return chosen


@dataclass(frozen=True, slots=True)
class LeafSlot:
    """One distinct leaf.

    Attributes:
        id: of the slot: the leaf's id, followed by `#` and its place when it is under a timed node.
        leaf: id of the leaf.
        compatible_id: id of the leaf without the amount it needs.
        needed: in its own unit (partitions, bytes, rows, times; one tick). Where keys have parts it depends on the key.
        match: which partitions or events it counts.
        measure: what it counts of a partition; None counts the partition itself.
        plain: it counts whole events, without match and measure.
        distinct: it counts a partition once, however often it is written.
        per: the correlation; None in a trigger that does not correlate.
        after: nodes that must hold before it counts: the first part of each `then` in whose second part it is.
        veto: it belongs to the veto of an `unless`, so its events are not in contributions.
        breaks_silence: it only breaks a silence and counts nothing.
        since_run: it is a `SinceLastRun`: it holds or does not, and any satisfaction starts it over.
        counted: the verdict on an event that counts in this leaf alone.
    """

    id: str
    needed: int
    bit: int
    match: Match = ANYTHING
    measure: Measure | None = None
    plain: bool = True
    leaf: str = ""
    compatible_id: str = ""
    per: Per | None = None
    after: tuple[Node, ...] = ()
    veto: bool = False
    breaks_silence: bool = False
    distinct: bool = False
    since_run: bool = False
    counted: JudgedEvent = field(default=JudgedEvent(Verdict.COUNTED), compare=False, repr=False)

    @property
    def has_parts(self) -> bool:
        """Whether it counts parts of a key, one for each event."""
        return self.per is not None and self.per.has_parts

    def wanted_amount(self, cell: str) -> int:
        """How much it needs under this key."""
        if self.per is None or not self.per.has_parts:
            return self.needed
        return self.per.wanted_parts(cell) or self.needed


@dataclass(frozen=True, slots=True)
class TimedNode:
    """A `then`, `unless`, `within`, `quiet` or `silence` of the trigger.

    Attributes:
        place: its index in `Plan.timed_nodes`; nodes inside it have smaller ones.
        first: its only child, the first of a `then`, the wanted one of an `unless`, what breaks a silence.
        second: the second of a `then`, the veto of an `unless`; otherwise None.
        mask: the bits of every leaf and timed node inside it.
        second_mask: those inside `second`.
        slots: ids of the leaf slots inside it.
        after: nodes that must hold before its events count: the first part of each `then` in whose second part it is.
        veto: it belongs to the veto of an `unless`.
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
    """The tree of the trigger as written, each part with its compiled form.

    Attributes:
        node: the node that holds when this part does.
        is_for: the leaf's slot or the timed node; None for a composite and a `per`.
    """

    trigger: Trigger
    node: Node
    is_for: LeafSlot | TimedNode | None
    children: tuple[Shape, ...]

    @property
    def bit(self) -> int:
        """0 for a composite and a `per`."""
        return 0 if self.is_for is None else self.is_for.bit


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled trigger.

    Attributes:
        slots: the distinct leaves, left to right.
        by_key: event key → the leaves that listen to it.
        by_tick: id of a time leaf → its slots.
        shape: the tree as written.
        timed_nodes: inner ones first.
        per: the bounds of the open keys; None in a trigger that does not correlate.
        root: the node of the whole trigger.
        on_correction: of that `per` which says it; None: keys that have fired are forgotten.
        needs_order: what it makes of events depends on the order of those of different keys, or of events and ticks.
    """

    slots: tuple[LeafSlot, ...]
    by_key: Mapping[str, tuple[LeafSlot, ...]]
    by_tick: Mapping[str, tuple[LeafSlot, ...]]
    shape: Shape
    timed_nodes: tuple[TimedNode, ...]
    per: Per | None
    root: Node
    on_correction: OnCorrection | None = None
    needs_order: bool = False

    @property
    def has_since_last_run(self) -> bool:
        """Whether a leaf is a `SinceLastRun`."""
        return any(slot.since_run for slot in self.slots)


def wanted_children(composite: Composite) -> int:
    """How many of its children a composite needs."""
    match composite:
        case AllOf(triggers=children):
            return len(children)
        case AnyOf():
            return 1
        case AtLeast(count=count):
            return count
        case _:
            assert_never(composite)


def build_plan(trigger: Trigger) -> Plan:
    """The plan of a trigger.

    Raises:
        InvalidDefinitionError: it correlates in a way that can never hold.
    """
    check_correlation(trigger)
    builder = _PlanBuilder()
    shape = builder.shape(trigger, _Position())
    slots = tuple(builder.slots.values())
    said = next((per.on_correction for per in correlations(trigger) if per.on_correction is not None), None)
    timed = tuple(builder.timed_nodes)
    ordered = any(isinstance(each.timed, Then | Unless | Within) for each in timed) and len(builder.by_key) > 1
    return Plan(
        slots,
        builder.by_key,
        builder.by_tick,
        shape,
        timed,
        builder.per,
        shape.node,
        said,
        needs_order=ordered or bool(builder.by_tick and builder.by_key),
    )


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of a leaf or timed node in the trigger."""

    place: str = ""
    per: Per | None = None
    after: tuple[Node, ...] = ()
    veto: bool = False
    breaks_silence: bool = False


@dataclass(slots=True)
class _PlanBuilder:
    slots: dict[str, LeafSlot] = field(default_factory=dict[str, LeafSlot])
    by_key: dict[str, tuple[LeafSlot, ...]] = field(default_factory=dict[str, tuple[LeafSlot, ...]])
    by_tick: dict[str, tuple[LeafSlot, ...]] = field(default_factory=dict[str, tuple[LeafSlot, ...]])
    timed_nodes: list[TimedNode] = field(default_factory=list[TimedNode])
    per: Per | None = None
    bits: int = 0
    places: int = 0

    def shape(self, trigger: Trigger, where: _Position) -> Shape:
        match trigger:
            case AllOf() | AnyOf() | AtLeast():
                below = tuple(self.shape(child, where) for child in trigger.triggers)
                return Shape(trigger, _node(trigger, below), None, below)
            case Per(trigger=only):
                self.per = self.per or trigger
                inside = self.shape(only, replace(where, per=trigger))
                return Shape(trigger, inside.node, None, (inside,))
            case Then() | Unless() | Within() | Quiet() | Silence():
                return self._timed_node(trigger, where)
            case _:
                slot = self._slot(trigger, where)
                return Shape(trigger, Node(1, slot.bit, (), (slot.bit,)), slot, ())

    def _slot(self, leaf: Leaf, where: _Position) -> LeafSlot:
        name = f"{leaf_id(leaf)}#{where.place}" if where.place else leaf_id(leaf)
        if where.per is not None and where.per != self.per:
            name = f"{name}%{_correlation_id(where.per)}"
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = _slot(leaf, name, self._next_bit(), where)
            if isinstance(leaf, Cron | Every | At | SinceLastRun):
                self.by_tick[slot.leaf] = (*self.by_tick.get(slot.leaf, ()), slot)
            for key in leaf_keys(leaf):
                self.by_key[key] = (*self.by_key.get(key, ()), slot)
        return slot

    def _timed_node(self, timed: Timed, where: _Position) -> Shape:
        """The nodes inside it are added first."""
        self.places += 1
        inside = replace(where, place=f"{where.place}.{self.places}" if where.place else str(self.places))
        slots, bits = len(self.slots), self.bits
        match timed:
            case Silence(of=only):
                below = (self.shape(only, replace(inside, breaks_silence=True)),)
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
        node = TimedNode(
            len(self.timed_nodes), bit, timed, first, second, mask, second_mask, names, where.after, where.veto
        )
        self.timed_nodes.append(node)
        return Shape(timed, Node(1, node.bit, (), (node.bit,)), node, below)

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
        else:  # a composite, or a repeated leaf, which counts again
            children.append(child.node)
    return Node(
        wanted_children(composite), mask, tuple(each for each in children if isinstance(each, Node)), tuple(children)
    )


def _correlation_id(per: Per) -> str:
    """Identifies how a `per` derives correlation keys."""
    grains = [per.grain, per.rolled_up_to, per.of, per.fanned_out_to, *([] if per.zone == NO_ZONE else [per.zone])]
    known = [] if per.each is None else [f"each {per.each.id}"]
    days = [] if per.calendar is None else [f"on {per.calendar.id}"]
    named = "+".join(per.by) if per.run_of is None else str(per.run_of)
    return ":".join([named, *("" if each is None else str(each) for each in grains), *known, *days])


def _slot(leaf: Leaf, name: str, bit: int, where: _Position) -> LeafSlot:
    match leaf:
        case Partitions(match=match, distinct=distinct):
            measure, plain = None, not match
        case CustomEvent(match=match) | ProgramStatus(match=match):
            measure, plain, distinct = None, not match, False
        case Total(match=match, measure=measure, distinct=distinct):
            plain = False
        case _:
            match, measure, plain, distinct = ANYTHING, None, True, False
    return LeafSlot(
        name,
        needed_by(leaf),
        bit,
        match,
        measure,
        plain,
        leaf_id(leaf),
        compatible_id(leaf),
        where.per,
        where.after,
        where.veto,
        where.breaks_silence,
        distinct,
        isinstance(leaf, SinceLastRun),
        JudgedEvent(Verdict.COUNTED, (leaf_id(leaf),)),
    )

"""A trigger, taken apart once so that a signal touches only the leaves it is about.

Derived from the trigger alone and never stored or compared. Equal leaves are one (`leaf_id`); each has one bit, so the
leaves that hold are one whole number and a group of leaves is judged by one `&`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from streamsched.domain.match import ANYTHING, Match
from streamsched.domain.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
    Composite,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Measure,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Total,
    Trigger,
    leaf_id,
    leaf_keys,
    leaves,
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One distinct leaf.

    Attributes:
        needed: in its own unit (partitions, bytes, rows, times; one tick).
        match: which partitions or events it counts.
        measure: what it counts of a partition; None counts the partition itself.
        plain: it counts whole events, with no match and no measure.
    """

    id: str
    needed: int
    bit: int
    match: Match = ANYTHING
    measure: Measure | None = None
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A composite: `wanted` of the leaves of `mask` and of the composites of `nodes`, taken together.

    Attributes:
        children: the bits of those leaves and those composites, in the trigger's order.
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
class Plan:
    """What the fold looks up.

    Attributes:
        slots: the distinct leaves, left to right.
        by_key: event key → the leaves that listen to it.
        by_tick: id of a time leaf → that leaf.
        root: the trigger over the bits.
    """

    slots: tuple[Slot, ...]
    by_key: Mapping[str, tuple[Slot, ...]]
    by_tick: Mapping[str, tuple[Slot, ...]]
    root: Node


def needed(leaf: Leaf) -> int:
    """How much a leaf wants, in its own unit."""
    match leaf:
        case Cron() | Every() | At():
            return 1
        case Partitions(count=count):
            return count
        case StreamGrowth(bytes=amount) | Total(amount=amount):
            return amount
        case ProgramStatus(times=times) | CustomEvent(times=times):
            return times
        case _:
            assert_never(leaf)


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
    """The plan of a trigger."""
    slots: dict[str, Slot] = {}
    by_key: dict[str, tuple[Slot, ...]] = {}
    by_tick: dict[str, tuple[Slot, ...]] = {}
    for leaf in leaves(trigger):
        name = leaf_id(leaf)
        if name in slots:
            continue
        slot = slots[name] = _slot(leaf, name, 1 << len(slots))
        if isinstance(leaf, Cron | Every | At):
            by_tick[name] = (slot,)
        for key in leaf_keys(leaf):
            by_key[key] = (*by_key.get(key, ()), slot)
    return Plan(tuple(slots.values()), by_key, by_tick, _node(trigger, slots))


def _slot(leaf: Leaf, name: str, bit: int) -> Slot:
    match leaf:
        case Partitions(match=match) | CustomEvent(match=match):
            return Slot(name, needed(leaf), bit, match, plain=not match)
        case Total(match=match, measure=measure):
            return Slot(name, needed(leaf), bit, match, measure, plain=False)
        case _:
            return Slot(name, needed(leaf), bit)


def _node(trigger: Trigger, slots: Mapping[str, Slot]) -> Node:
    if not isinstance(trigger, AllOf | AnyOf | AtLeast):
        only = slots[leaf_id(trigger)].bit
        return Node(1, only, (), (only,))
    mask = 0
    below: list[int | Node] = []
    for child in trigger.triggers:
        bit = 0 if isinstance(child, AllOf | AnyOf | AtLeast) else slots[leaf_id(child)].bit
        if bit & ~mask:
            mask |= bit
            below.append(bit)
        else:  # a composite, or a leaf that is named again and so counts again
            below.append(_node(child, slots))
    nodes = tuple(child for child in below if isinstance(child, Node))
    return Node(wanted(trigger), mask, nodes, tuple(below))

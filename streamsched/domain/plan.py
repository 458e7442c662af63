"""A trigger, taken apart once so that a signal touches only the leaves it is about.

Derived from the trigger alone and never stored or compared. Equal leaves are one (`leaf_id`); each has one bit, so the
leaves that hold are one whole number and a group of leaves is judged by one `&`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from streamsched.domain.trigger import (
    AllOf,
    AnyOf,
    At,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Trigger,
    leaf_id,
    leaf_keys,
    leaves,
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One distinct leaf: `needed` in its own unit (partitions, bytes, times; one tick), and its bit."""

    id: str
    needed: int
    bit: int


@dataclass(frozen=True, slots=True)
class Node:
    """`AllOf` (`every`) or `AnyOf` over the leaves of `mask` and the composites of `nodes`."""

    every: bool
    mask: int
    nodes: tuple[Node, ...]

    def holds(self, held: int) -> bool:
        """Whether this node holds when the leaves of `held` do."""
        if self.every:
            return held & self.mask == self.mask and all(node.holds(held) for node in self.nodes)
        return held & self.mask != 0 or any(node.holds(held) for node in self.nodes)


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
        case StreamGrowth(bytes=amount):
            return amount
        case ProgramStatus(times=times) | CustomEvent(times=times):
            return times
        case _:
            assert_never(leaf)


def planned(trigger: Trigger) -> Plan:
    """The plan of a trigger."""
    slots: dict[str, Slot] = {}
    by_key: dict[str, tuple[Slot, ...]] = {}
    by_tick: dict[str, tuple[Slot, ...]] = {}
    for leaf in leaves(trigger):
        name = leaf_id(leaf)
        if name in slots:
            continue
        slot = slots[name] = Slot(name, needed(leaf), 1 << len(slots))
        if isinstance(leaf, Cron | Every | At):
            by_tick[name] = (slot,)
        for key in leaf_keys(leaf):
            by_key[key] = (*by_key.get(key, ()), slot)
    return Plan(tuple(slots.values()), by_key, by_tick, _node(trigger, slots))


def _node(trigger: Trigger, slots: Mapping[str, Slot]) -> Node:
    match trigger:
        case AllOf(triggers=children) | AnyOf(triggers=children):
            mask = 0
            nodes: list[Node] = []
            for child in children:
                if isinstance(child, AllOf | AnyOf):
                    nodes.append(_node(child, slots))
                else:
                    mask |= slots[leaf_id(child)].bit
            return Node(isinstance(trigger, AllOf), mask, tuple(nodes))
        case _:
            return Node(True, slots[leaf_id(trigger)].bit, ())

"""Why a schedule has not fired yet: a tree in the shape of its trigger."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.domain.event import Event
from streamsched.domain.fold import NOTHING, TriggerState
from streamsched.domain.plan import needed, wanted
from streamsched.domain.trigger import AllOf, AnyOf, AtLeast, Trigger, leaf_id


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node of the tree.

    Attributes:
        text: the trigger in words.
        have, need, missing: a leaf counts in its own unit (partitions, bytes, times, ticks), a composite in children.
        events: what counted so far, in order of arrival; a composite's are at its leaves.
        children: in the trigger's order; a leaf that occurs twice is explained twice.
    """

    text: str
    holds: bool
    have: int
    need: int
    missing: int
    events: tuple[Event, ...] = ()
    children: tuple[Explanation, ...] = ()


def explain(state: TriggerState) -> Explanation:
    """What the accumulation has and what it still wants. The root never holds: a schedule that would has just fired."""
    return _explain(state, state.trigger)


def _explain(state: TriggerState, trigger: Trigger) -> Explanation:
    match trigger:
        case AllOf(triggers=below) | AnyOf(triggers=below) | AtLeast(triggers=below):
            children = tuple(_explain(state, child) for child in below)
            have = sum(child.holds for child in children)
            need = wanted(trigger)
            return _node(str(trigger), have, need, children=children)
        case _:
            has = state.accumulations.get(leaf_id(trigger), NOTHING)
            return _node(str(trigger), has.count, needed(trigger), events=has.events)


def _node(
    text: str, have: int, need: int, *, events: tuple[Event, ...] = (), children: tuple[Explanation, ...] = ()
) -> Explanation:
    return Explanation(text, have >= need, have, need, max(0, need - have), events, children)

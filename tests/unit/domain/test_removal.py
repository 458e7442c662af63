"""What a program's removal leaves of triggers that wait for it (CDAP-12515)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.names import DatasetRef, ProgramRef
from streamsched.domain.triggers.removal import awaited_programs, remove_programs
from streamsched.domain.triggers.trigger import AllOf, AnyOf, AtLeast, Partitions, ProgramStatus, Trigger, leaves
from streamsched.testing.definitions import triggers

GONE, OTHER = ProgramRef("default", "up", "gone"), ProgramRef("default", "up", "other")
P, Q = ProgramStatus(GONE), ProgramStatus(OTHER)
X, Y, Z = (Partitions(DatasetRef("default", name)) for name in "xyz")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (P, None),
        (Q, Q),
        (P & X, None),
        (P | X, X),
        (P | X | Y, X | Y),
        (P | ProgramStatus(GONE, times=3), None),
        ((P & X) | Y, Y),
        ((P | X) & Y, AllOf((X, Y))),
        ((P & X) & Y, None),
        (AnyOf((AllOf((P, X)), AllOf((P, Y)))), None),
        (AtLeast(2, (P, X, Y)), AtLeast(2, (X, Y))),
        (AtLeast(2, (P, X)), None),
        (AtLeast(1, (P, X)), X),
        (AtLeast(2, (P, X, Q)), AtLeast(2, (X, Q))),
        ((P | X) & (Q | Y), AllOf((X, AnyOf((Q, Y))))),
    ],
    ids=str,
)
def test_the_tree_is_rewritten(before: Trigger, after: Trigger | None) -> None:
    assert remove_programs(before, {GONE}) == after


@given(triggers, st.data())
def test_what_is_left_waits_for_nothing_that_is_gone_and_for_nothing_new(trigger: Trigger, data: st.DataObject) -> None:
    known = awaited_programs(trigger) | {OTHER}
    gone = data.draw(st.frozensets(st.sampled_from(sorted(known))))

    left = remove_programs(trigger, gone)

    if not gone & awaited_programs(trigger):
        assert left is trigger
    if left is not None:
        assert not awaited_programs(left) & gone
        assert set(leaves(left)) <= set(leaves(trigger))
        assert remove_programs(left, gone) is left


@given(triggers, st.data())
def test_it_holds_with_what_is_left_exactly_when_it_held_without_the_programs(
    trigger: Trigger, data: st.DataObject
) -> None:
    """The model: a removed program is a leaf that never holds."""
    gone = data.draw(st.frozensets(st.sampled_from(sorted(awaited_programs(trigger) | {OTHER}))))
    mute = {leaf for leaf in leaves(trigger) if isinstance(leaf, ProgramStatus) and leaf.program in gone}
    holding = data.draw(st.frozensets(st.sampled_from(sorted(set(leaves(trigger)) - mute, key=str) or [X])))

    left = remove_programs(trigger, gone)

    assert _holds(trigger, holding - mute) == (left is not None and _holds(left, holding))


def _holds(trigger: Trigger, holding: frozenset[Trigger]) -> bool:
    match trigger:
        case AllOf(triggers=children):
            return all(_holds(child, holding) for child in children)
        case AnyOf(triggers=children):
            return any(_holds(child, holding) for child in children)
        case AtLeast(count=count, triggers=children):
            return sum(_holds(child, holding) for child in children) >= count
        case _:
            return trigger in holding

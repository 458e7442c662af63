"""What is left of a trigger when a program it waits for is removed for good (CDAP-12515, reference: cdap §3.2).

A leaf that waits for the program can never hold again. So can no composite that needs it; one that can hold without it
goes on without it, and where a single child is left, that child stands for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar, assert_never

from streamsched.domain.names import ProgramRef
from streamsched.domain.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Partitions,
    Per,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Total,
    Trigger,
    Unless,
    Within,
    leaves,
)

_T = TypeVar("_T", bound=Then | Unless | Within | Quiet | Per)


def awaited(trigger: Trigger) -> frozenset[ProgramRef]:
    """The programs a trigger waits for."""
    return frozenset(leaf.program for leaf in leaves(trigger) if isinstance(leaf, ProgramStatus))


def without(trigger: Trigger, gone: Collection[ProgramRef]) -> Trigger | None:
    """The trigger without what waits for the programs that are gone; None when it could never hold again. The very same
    object when it waits for none of them.

    Never makes a trigger hold that did not: what is left is what held it up otherwise.
    """
    match trigger:
        case ProgramStatus(program=program):
            return None if program in gone else trigger
        case AllOf(triggers=children):
            return _left(trigger, children, gone, wanted=len(children))
        case AnyOf(triggers=children):
            return _left(trigger, children, gone, wanted=1)
        case AtLeast(count=count, triggers=children):
            return _left(trigger, children, gone, wanted=count)
        case Then(first=first, second=second):
            one, other = without(first, gone), without(second, gone)
            return None if one is None or other is None else _rebuilt(trigger, first=one, second=other)
        case Unless(wanted=wanted, veto=veto):
            one, other = without(wanted, gone), without(veto, gone)
            if one is None or other is None:  # what can never come forbids nothing
                return one
            return _rebuilt(trigger, wanted=one, veto=other)
        case Within(trigger=only) | Quiet(trigger=only) | Per(trigger=only):
            left = without(only, gone)
            return None if left is None else _rebuilt(trigger, trigger=left)
        case Silence(of=only):  # for ever silent says nothing
            return None if without(only, gone) is None else trigger
        case Cron() | Every() | At() | Partitions() | Total() | StreamGrowth() | CustomEvent():
            return trigger
        case _:
            assert_never(trigger)


def _rebuilt(whole: _T, **parts: Trigger) -> _T:
    same = all(getattr(whole, name) is part for name, part in parts.items())
    return whole if same else replace(whole, **parts)


def _left(
    composite: AllOf | AnyOf | AtLeast, children: tuple[Trigger, ...], gone: Collection[ProgramRef], *, wanted: int
) -> Trigger | None:
    found = tuple(without(child, gone) for child in children)
    left = tuple(child for child in found if child is not None)
    if len(left) < wanted:
        return None
    if all(after is before for after, before in zip(found, children, strict=True)):
        return composite
    if len(left) == 1:
        return left[0]
    match composite:
        case AllOf():
            return AllOf(left)
        case AnyOf():
            return AnyOf(left)
        case AtLeast(count=count):
            return AtLeast(count, left)
        case _:
            assert_never(composite)

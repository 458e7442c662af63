"""Rewrites a trigger when a program it waits for is deleted (CDAP-12515).

A leaf that waits for the program can never hold again, and neither can a composite that requires it. A composite that
can hold without it drops it; a composite with a single child left is replaced by that child. A program whose runs are
the keys of a join is awaited too: without it no key opens any more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar, assert_never

from streamsched.domain.names import ProgramRef
from streamsched.domain.triggers.trigger import (
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
    SinceLastRun,
    StreamGrowth,
    Then,
    Total,
    Trigger,
    Unless,
    Within,
    leaves,
    run_of,
)

_T = TypeVar("_T", bound=Then | Unless | Within | Quiet | Per)


def awaited_programs(trigger: Trigger) -> frozenset[ProgramRef]:
    """The programs a trigger waits for, and the one whose runs are its keys."""
    programs = frozenset(leaf.program for leaf in leaves(trigger) if isinstance(leaf, ProgramStatus))
    ancestor = run_of(trigger)
    return programs if ancestor is None else programs | {ancestor}


def remove_programs(trigger: Trigger, deleted: Collection[ProgramRef]) -> Trigger | None:
    """The trigger without the leaves that wait for deleted programs; None when it could never hold again; the same
    object when it waits for none of them.

    The result never holds where the original did not.
    """
    match trigger:
        case ProgramStatus(program=program):
            return None if program in deleted else trigger
        case AllOf(triggers=children):
            return _remove_from_composite(trigger, children, deleted, wanted=len(children))
        case AnyOf(triggers=children):
            return _remove_from_composite(trigger, children, deleted, wanted=1)
        case AtLeast(count=count, triggers=children):
            return _remove_from_composite(trigger, children, deleted, wanted=count)
        case Then(first=first, second=second):
            one, other = remove_programs(first, deleted), remove_programs(second, deleted)
            return None if one is None or other is None else _rebuilt(trigger, first=one, second=other)
        case Unless(wanted=wanted, veto=veto):
            one, other = remove_programs(wanted, deleted), remove_programs(veto, deleted)
            if one is None or other is None:  # a veto that can never hold has no effect
                return one
            return _rebuilt(trigger, wanted=one, veto=other)
        case Per(run_of=ancestor) if ancestor in deleted:
            return None
        case Within(trigger=only) | Quiet(trigger=only) | Per(trigger=only):
            left = remove_programs(only, deleted)
            return None if left is None else _rebuilt(trigger, trigger=left)
        case Silence(of=only):  # permanent silence is not a condition
            return None if remove_programs(only, deleted) is None else trigger
        case Cron() | Every() | At() | SinceLastRun() | Partitions() | Total() | StreamGrowth() | CustomEvent():
            return trigger
        case _:
            assert_never(trigger)


def _rebuilt(whole: _T, **parts: Trigger) -> _T:
    same = all(getattr(whole, name) is part for name, part in parts.items())
    return whole if same else replace(whole, **parts)


def _remove_from_composite(
    composite: AllOf | AnyOf | AtLeast, children: tuple[Trigger, ...], deleted: Collection[ProgramRef], *, wanted: int
) -> Trigger | None:
    found = tuple(remove_programs(child, deleted) for child in children)
    left = tuple(child for child in found if child is not None)
    if len(left) < wanted:
        return None
    if all(after is before for after, before in zip(found, children, strict=True)):
        return composite
    if len(left) == 1:
        return left[0]
    match composite:
        case AllOf():
            return replace(composite, triggers=left)
        case AnyOf():
            return AnyOf(left)
        case AtLeast(count=count):
            return AtLeast(count, left)
        case _:
            assert_never(composite)

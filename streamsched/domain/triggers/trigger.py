"""Triggers: pure values that define when a schedule is satisfied.

>>> from streamsched.domain.names import DatasetRef
>>> flights, weather = DatasetRef("default", "flights"), DatasetRef("default", "weather")
>>> str(Partitions(flights, 7) & Partitions(weather, 7))
'7 new partitions of default.flights and 7 new partitions of default.weather'
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.composite import AllOf, AnyOf, AtLeast
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.leaf import (
    At,
    Cron,
    CustomEvent,
    EventLeaf,
    Every,
    Leaf,
    Measure,
    Partitions,
    ProgramStatus,
    SinceLastRun,
    StreamGrowth,
    TickingLeaf,
    TimeLeaf,
    Total,
    compatible_id,
    leaf_id,
    leaf_keys,
    needed_amount,
)
from streamsched.domain.triggers.timed import OnExpiry, Quiet, Silence, Then, Timed, Unless, Within

__all__ = [
    "AllOf",
    "AnyOf",
    "At",
    "AtLeast",
    "Composite",
    "Cron",
    "CustomEvent",
    "EventLeaf",
    "Every",
    "Leaf",
    "Measure",
    "OnExpiry",
    "Partitions",
    "Per",
    "ProgramStatus",
    "Quiet",
    "Silence",
    "SinceLastRun",
    "StreamGrowth",
    "Then",
    "TickingLeaf",
    "TimeLeaf",
    "Timed",
    "Total",
    "Trigger",
    "Unless",
    "Within",
    "check_correlation",
    "check_key_grains",
    "children",
    "compatible_id",
    "correlations",
    "event_keys",
    "leaf_id",
    "leaf_keys",
    "leaves",
    "leaves_with_per",
    "makes_corrections",
    "needed_amount",
    "run_of",
]

Composite = AllOf | AnyOf | AtLeast
Trigger = Leaf | Composite | Timed | Per


def children(trigger: Trigger) -> tuple[Trigger, ...]:
    """The direct children of a trigger, in order; none for a leaf."""
    match trigger:
        case AllOf(triggers=below) | AnyOf(triggers=below) | AtLeast(triggers=below):
            return below
        case Then(first=first, second=second):
            return first, second
        case Unless(wanted=wanted, veto=veto):
            return wanted, veto
        case Within(trigger=only) | Quiet(trigger=only) | Per(trigger=only):
            return (only,)
        case Silence(of=only):
            return (only,)
        case Cron() | Every() | At() | SinceLastRun():
            return ()
        case Partitions() | Total() | StreamGrowth() | ProgramStatus() | CustomEvent():
            return ()
        case _:
            assert_never(trigger)


def leaves(trigger: Trigger) -> Iterator[Leaf]:
    """The leaves, left to right, including repeated ones."""
    below = children(trigger)
    if not below:
        yield trigger  # type: ignore[misc]
    for child in below:
        yield from leaves(child)


def correlations(trigger: Trigger) -> Iterator[Per]:
    """Its `per`, left to right; none is inside another."""
    if isinstance(trigger, Per):
        yield trigger
        return
    for child in children(trigger):
        yield from correlations(child)


def makes_corrections(trigger: Trigger) -> bool:
    """Whether what comes for a key after its job makes another job."""
    return any(per.on_correction is not None and per.on_correction.quiet is not None for per in correlations(trigger))


def run_of(trigger: Trigger) -> ProgramRef | None:
    """The program whose runs are the keys; None of a trigger that correlates otherwise or not at all."""
    if isinstance(trigger, Per):
        return trigger.run_of
    return next((found for child in children(trigger) if (found := run_of(child)) is not None), None)


def event_keys(trigger: Trigger) -> frozenset[str]:
    """The event keys a schedule with this trigger subscribes to; time leaves have none."""
    return frozenset(key for leaf in leaves(trigger) for key in leaf_keys(leaf))


def check_correlation(trigger: Trigger) -> bool:
    """Whether a trigger correlates.

    Raises:
        InvalidDefinitionError: only a part of it does, a `per` is inside another, a leaf has no key, or the keys do
            not fit together.
    """
    found = list(leaves_with_per(trigger))
    pers = [per for _, per in found if per is not None]
    if not pers:
        return False
    for leaf, per in found:
        if per is None:
            raise InvalidDefinitionError("$", f"correlates, but not everywhere: {leaf} is under no `per`")
        if not isinstance(leaf, Partitions | Total | ProgramStatus | CustomEvent):
            raise InvalidDefinitionError("$", f"correlates, but {leaf} has no key to correlate by")
        if per.has_parts and (needed_amount(leaf) != 1 or isinstance(leaf, Total)):
            what = "names a known set, so it counts values" if per.each else "rolls up, so it counts periods"
            raise InvalidDefinitionError("$", f"{what}; {leaf} wants something else")
        if per.run_of is not None and not isinstance(leaf, ProgramStatus):
            raise InvalidDefinitionError("$", f"correlates by runs of {per.run_of}, but {leaf} descends from no run")
    if len({per.run_of for per in pers}) > 1:
        raise InvalidDefinitionError("$", "correlates by runs of different programs, which can never be equal")
    if len({per.parts_of_key for per in pers}) > 1:
        raise InvalidDefinitionError("$", "correlates by different numbers of columns, which can never be equal")
    if len({(per.expires, per.at_most, per.full) for per in pers}) > 1:
        raise InvalidDefinitionError(
            "$", "has different bounds for its open keys (`expires`, `at_most`, `then`); say one"
        )
    if len({per.on_correction for per in pers} - {None}) > 1:
        raise InvalidDefinitionError("$", "says different things of corrections (`on_correction`); say one")
    return True


def check_key_grains(trigger: Trigger) -> frozenset[Grain | None]:
    """The grains of the keys under which it may hold; None: of texts. Not part of a trigger itself: triggers stored
    before this rule must still be read.

    Raises:
        InvalidDefinitionError: it waits for keys of several grains together, which are never equal.
    """
    if isinstance(trigger, Per):
        return frozenset({trigger.key_grain})
    below = [check_key_grains(child) for child in children(trigger)]
    if isinstance(trigger, AllOf | Then):
        for one, other in combinations({each for each in below if each and None not in each}, 2):
            if one.isdisjoint(other):
                names = " and for ".join(sorted(f"{grain}s" for grain in one | other))
                raise InvalidDefinitionError(
                    "$.trigger", f"waits for {names}, which are never one key: roll up or fan out those of one grain"
                )
    return frozenset[Grain | None]().union(*below)


def leaves_with_per(trigger: Trigger, per: Per | None = None) -> Iterator[tuple[Leaf, Per | None]]:
    """The leaves, left to right, each with the `per` that it is under.

    Raises:
        InvalidDefinitionError: a `per` is inside another.
    """
    if isinstance(trigger, Per):
        if per is not None:
            raise InvalidDefinitionError("$", "`per` must not be nested: an inner trigger has a `per` of its own")
        per = trigger
    below = children(trigger)
    if not below:
        yield trigger, per  # type: ignore[misc]
    for child in below:
        yield from leaves_with_per(child, per)

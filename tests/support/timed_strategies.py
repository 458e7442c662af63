"""Hypothesis strategies for triggers that mind the clock, and for logs whose records have times.

Times and durations lie on one coarse grid, so that events meet deadlines, and each other, at the very same instant. A
log is drawn as a list of small numbers and made from them: that is quick, and shrinks well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple, assert_never

from hypothesis import strategies as st

from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.names import EventName, StreamRef
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    OnExpiry,
    Partitions,
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
    leaf_id,
)
from streamsched.domain.triggers.trigger import leaves as all_leaves
from streamsched.testing import strategies as world
from tests.support.rerun import Stamped

START: Final = datetime(2013, 1, 7, tzinfo=UTC)
STEP: Final = timedelta(minutes=10)
NAMES: Final = tuple(EventName("default", name) for name in "abc")
#: What partitions and attributes of the small world say.
VALUES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"day": "7"},
    {"day": "8", "region": "a"},
    {"day": "17", "region": "b"},
)


def durations() -> st.SearchStrategy[timedelta]:
    return st.sampled_from([STEP, 2 * STEP, 3 * STEP, 4 * STEP])


@cache
def leaves() -> st.SearchStrategy[Leaf]:
    """Few names and small counts, so that events often meet who waits for them; now and then a leaf of any kind."""
    simple = st.builds(CustomEvent, st.sampled_from(NAMES), st.sampled_from([1, 1, 1, 2]))
    return st.one_of(simple, simple, simple, simple, world.event_leaves(), world.time_leaves())


@cache
def silences() -> st.SearchStrategy[Trigger]:
    stream = st.builds(StreamGrowth, st.just(StreamRef("default", "clicks")), st.just(1))
    one = st.builds(CustomEvent, st.sampled_from(NAMES))
    return st.builds(Silence, st.one_of(one, one, stream), durations())


@cache
def triggers(max_leaves: int = 5) -> st.SearchStrategy[Trigger]:
    """Triggers of any shape with parts that mind the clock, one inside the other too."""
    base = st.one_of(leaves(), leaves(), leaves(), leaves(), silences())
    return st.recursive(base, lambda below: timed(below) | timed(below) | combined(below), max_leaves=max_leaves)


def timed(below: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
    """One part that depends on the clock, and what is in it."""
    limits = st.sampled_from([None, STEP, 2 * STEP, 4 * STEP])
    return st.one_of(
        st.builds(Then, below, below, limits),
        st.builds(Unless, below, below, limits),
        st.builds(Within, combined(below) | below, durations(), st.sampled_from(OnExpiry)),
        st.builds(Quiet, below, st.just(2 * STEP), st.sampled_from([None, 2 * STEP, 3 * STEP])),
    )


def combined(below: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
    several = st.lists(below, min_size=2, max_size=3).map(tuple)
    counted = several.flatmap(lambda some: st.builds(AtLeast, st.integers(1, len(some)), st.just(some)))
    return st.one_of(st.builds(AllOf, several), st.builds(AllOf, several), st.builds(AnyOf, several), counted)


def consumptions() -> st.SearchStrategy[Consumption]:
    return st.sampled_from(Consumption)


def lates() -> st.SearchStrategy[Late | None]:
    return st.none() | st.none() | st.builds(Late, durations(), st.sampled_from(OnLate))


def puts(trigger: st.SearchStrategy[Trigger] | None = None) -> st.SearchStrategy[Put]:
    """First definitions."""
    return st.builds(
        Put,
        st.just(world.SCHEDULE),
        st.just(1),
        st.just(True),
        triggers() if trigger is None else trigger,
        consumptions(),
        late=lates(),
    )


class Beat(NamedTuple):
    """What happens next: after so many steps, what kind of signal, and which of its kind."""

    steps: int
    kind: str
    which: int


def beats(*, control: bool = True, max_size: int = 24) -> st.SearchStrategy[list[Beat]]:
    """Several at one instant as often as not."""
    kinds = ["event"] * 14 + (["pause", "resume", "keep", "reset", "again", "drop"] if control else [])
    one = st.builds(Beat, st.sampled_from([0, 0, 1, 1, 2, 5]), st.sampled_from(kinds), st.integers(0, 255))
    return st.lists(one, max_size=max_size) | st.lists(one, min_size=max_size // 2, max_size=max_size)


def logs(
    trigger: st.SearchStrategy[Trigger] | None = None, *, control: bool = True, max_size: int = 24
) -> st.SearchStrategy[list[Stamped]]:
    """A definition, then events and, with `control`, changes of it: anew, keeping, pausing, resuming, repeated, older,
    and drops.
    """
    others = st.lists(puts(), min_size=2, max_size=2) if control else st.just([])
    return st.builds(log_of, puts(trigger), others, beats(control=control, max_size=max_size))


def log_of(put: Put, others: Sequence[Put], beats: Sequence[Beat]) -> list[Stamped]:
    """The log of these beats; changes that begin anew are to one of the others."""
    at = START
    log: list[Stamped] = [(at, put)]
    for place, beat in enumerate(beats):
        at += beat.steps * STEP
        signal: Signal
        if beat.kind == "event":
            event = event_of(put, f"e{place}", at, beat.which)
            signal = Occurred(event, at - event.time)
        else:
            signal, put = changed(beat.kind, put, others, beat.which)
        log.append((at, signal))
    return log


def changed(kind: str, put: Put, others: Sequence[Put], which: int) -> tuple[Signal, Put]:
    """A change of a definition, and the definition from there on. Those that keep have the same trigger."""
    generation, odd = put.generation + 1 + which // 2 % 2, bool(which % 2)
    match kind:
        case "pause":
            new = replace(put, generation=generation, enabled=False, keep=odd)
        case "resume" | "keep":
            new = replace(put, generation=generation, enabled=True, keep=True)
        case "reset":
            new = replace(others[odd], generation=generation)
        case "again":
            return (put if odd else replace(others[0], generation=put.generation - 1)), put
        case _:
            return Drop(put.schedule, put.generation - odd), put
    return new, new


def event_of(put: Put, name: str, at: datetime, which: int) -> Event:
    """Mostly what some leaf of the definition listens to, and mostly in time."""
    heard = [*all_leaves(put.trigger), *(CustomEvent(each) for each in NAMES)]
    leaf = heard[which % len(heard)]
    happened = at - (which // 3 % 8 - 4) * STEP if which // 3 % 8 > 4 else at
    return Event(name, "test", happened, fact_for(leaf, put.generation, which // 8))


def fact_for(leaf: Leaf, generation: int, which: int) -> Fact:
    """A fact that a leaf listens to; not each of them counts in it."""
    values = VALUES[which % 4]
    match leaf:
        case CustomEvent(name=name):
            return CustomHappened(name, values)
        case Partitions(dataset=dataset) | Total(dataset=dataset):
            named = [
                Partition(f"p{n}", VALUES[(which + n) % 4], which % 5 or None, n or None) for n in range(which % 3)
            ]
            return PartitionsAdded(dataset, tuple(named), max(1, len(named)))
        case StreamGrowth(stream=stream):
            return StreamSize(stream, which % 9, absolute=which % 3 > 0)
        case ProgramStatus(program=program, outcomes=outcomes):
            return ProgramReached(program, "run", sorted(outcomes)[which % len(outcomes)], values)
        case Cron() | Every() | At() | SinceLastRun():
            return Ticked(world.SCHEDULE, generation - (which % 8 == 0), leaf_id(leaf), START)
        case _:
            assert_never(leaf)

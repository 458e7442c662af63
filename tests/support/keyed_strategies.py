"""Hypothesis strategies for triggers that correlate, and for logs of events that have keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Final

from hypothesis import strategies as st

from streamsched.domain.events.event import CustomHappened, Event, Outcome, Partition, PartitionsAdded, ProgramReached
from streamsched.domain.events.match import ANYTHING, Match, OneOf
from streamsched.domain.names import DatasetRef, ProgramRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Per, ProgramStatus, Silence, Trigger, leaves
from streamsched.testing import strategies as world
from tests.support.rerun import Stamped
from tests.support.timed_strategies import NAMES, START, STEP, Beat, beats, combined, consumptions, durations, timed

FLIGHTS: Final = DatasetRef("default", "flights")
LOAD: Final = ProgramRef("default", "app", "load")
DAYS: Final = ("2013-01-07", "2013-01-08")
HOURS: Final = ("2013-01-07T05", "2013-01-07 05", "2013-01-07T06", "2013-01-07T07", "2013-01-08T00", "no hour")
#: Hours of a day beside a column of the day.
CLOCK: Final = ("05", "5", "6", "06", "x", "7")
#: Rows of one event: a column that may be missing or empty, a day, an hour, and the hour of the day.
ROWS: Final[tuple[dict[str, str], ...]] = (
    {},
    *(
        {"customer": name, "day": DAYS[n % 2], "hour": HOURS[n], "clock": CLOCK[n]}
        for n, name in enumerate(("a", "b", "c", "", "a", "b"))
    ),
)


@cache
def inside() -> st.SearchStrategy[Trigger]:
    """What may stand under one `per`."""
    one = st.builds(CustomEvent, st.sampled_from(NAMES)) | st.just(Partitions(FLIGHTS)) | runs()
    few = st.builds(CustomEvent, st.sampled_from(NAMES), st.just(2)) | st.just(Partitions(FLIGHTS, 2))
    silent = st.builds(Silence, st.builds(CustomEvent, st.sampled_from(NAMES)), durations())
    base = st.one_of(one, one, one, few, silent)
    return st.recursive(base, lambda below: timed(below) | combined(below), max_leaves=4)


@cache
def runs() -> st.SearchStrategy[Trigger]:
    """Runs of a program that succeeded, some with certain arguments."""
    matches = st.sampled_from([ANYTHING, Match.from_values({"customer": OneOf(frozenset({"a", "c"}))})])
    return st.builds(ProgramStatus, st.just(LOAD), match=matches)


@cache
def rolled() -> st.SearchStrategy[Trigger]:
    one = st.builds(CustomEvent, st.sampled_from(NAMES)) | st.just(Partitions(FLIGHTS)) | runs()
    return one | combined(one)


@st.composite
def triggers(draw: st.DrawFn, *, at_most: int = 10_000, full: OnFull = OnFull.REFUSE) -> Trigger:
    """By customer, by day, by hours that are rolled up, of one column or of two in a zone, by days that are fanned out,
    or two of these together.
    """
    expires = draw(st.sampled_from([2 * STEP, 4 * STEP, timedelta(hours=5)]))
    per = partial(Per, expires=expires, at_most=at_most, full=full)
    match draw(st.sampled_from(["customer", "customer", "both", "day", "hour", "clock", "fan"])):
        case "customer":
            return per(draw(inside()), ("customer",))
        case "both":
            return per(draw(inside()), ("customer", "day"))
        case "day":
            return per(draw(inside()), ("day",), Grain.DAY)
        case "hour":
            enough = draw(st.sampled_from([1, 2, 3]))
            up = per(draw(rolled()), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY, of=enough)
            return up if draw(st.booleans()) else up & per(draw(rolled()), ("day",), Grain.DAY)
        case "clock":
            zoned = partial(per, by=("day", "clock"), grain=Grain.HOUR, zone="Europe/Berlin")
            return zoned(draw(rolled()), rolled_up_to=Grain.DAY, of=draw(st.sampled_from([1, 2])))
        case _:
            fine = per(draw(rolled()), ("hour",), Grain.HOUR)
            return fine & per(draw(rolled()), ("day",), Grain.DAY, fanned_out_to=Grain.HOUR)


def logs(
    *, at_most: int = 10_000, full: OnFull = OnFull.REFUSE, max_size: int = 24
) -> st.SearchStrategy[list[Stamped]]:
    """A definition and events."""
    when = triggers(at_most=at_most, full=full)
    put = st.builds(Put, st.just(world.SCHEDULE), st.just(1), st.just(True), when, consumptions())
    return st.builds(log_of, put, beats(control=False, max_size=max_size))


def log_of(put: Put, beats: Sequence[Beat]) -> list[Stamped]:
    at = START
    log: list[Stamped] = [(at, put)]
    for place, beat in enumerate(beats):
        at += beat.steps * STEP
        log.append((at, Occurred(event_of(put.trigger, f"e{place}", at, beat.which))))
    return log


def event_of(trigger: Trigger, name: str, at: datetime, which: int) -> Event:
    """What some leaf listens to, under one key; a commit may have several."""
    heard = list(leaves(trigger))
    leaf, row = heard[which % len(heard)], which // len(heard)
    if isinstance(leaf, CustomEvent):
        return Event(name, "test", at, CustomHappened(leaf.name, ROWS[row % 7]))
    if isinstance(leaf, ProgramStatus):
        return Event(name, "test", at, ProgramReached(leaf.program, "run", Outcome.SUCCEEDED, ROWS[row % 7]))
    step = 1 + row // 21 % 6  # a commit names its hours in any order
    rows = [ROWS[(row + n * step) % 7] for n in range(1 + row // 7 % 3)]
    commit = PartitionsAdded(FLIGHTS, tuple(Partition(f"p{n}", values) for n, values in enumerate(rows)), len(rows))
    return Event(name, "test", at, commit)

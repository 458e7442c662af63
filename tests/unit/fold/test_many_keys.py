"""The cost and the bounds of events with many correlation keys."""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime

import pytest

from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold.effect import Refuse
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import CELLS_NAMED, Verdict
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import EXPIRES, KEYS_AT_ONCE, OnFull, Per
from streamsched.domain.triggers.trigger import AllOf, Partitions, Trigger
from tests.support.engine import Engine

REF = ScheduleRef("default", "joins", "each")
A, B = DatasetRef("default", "a"), DatasetRef("default", "b")
START = datetime(2026, 1, 1, tzinfo=UTC)


def join(*, at_most: int = 1_000_000, full: OnFull = OnFull.REFUSE) -> Per:
    return Per(AllOf((Partitions(A, 1), Partitions(B, 1))), ("date",), at_most=at_most, full=full)


def engine(trigger: Trigger) -> Engine:
    made = Engine(REF)
    made.tell(START, Put(REF, 1, True, trigger))
    return made


def dates(count: int, *, first: int = 0, dataset: DatasetRef = A) -> Occurred:
    rows = tuple(Partition(f"date={n}", {"date": str(n)}) for n in range(first, first + count))
    return Occurred(Event(f"e{first}", "test", START, PartitionsAdded(dataset, rows, count)))


def folding_s(keys: int, made: Engine, *, first: int = 0) -> float:
    """CPU seconds to fold one event of so many new keys, without the garbage collector."""
    signal = dates(keys, first=first)
    gc.disable()
    try:
        began = time.process_time()
        made.tell(START, signal)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize("full", list(OnFull))
def test_ten_times_the_keys_cost_about_ten_times_as_much(full: OnFull) -> None:
    small = min(folding_s(KEYS_AT_ONCE // 10, engine(join(full=full))) for _ in range(5))
    large = min(folding_s(KEYS_AT_ONCE, engine(join(full=full))) for _ in range(3))

    assert large < 30 * small  # 100 times, if every key cost as much as there are keys


def test_an_event_costs_the_same_however_many_keys_are_open() -> None:
    few, many = engine(join()), engine(join())
    for n in range(10):
        many.tell(START, dates(KEYS_AT_ONCE, first=n * KEYS_AT_ONCE))

    alone = min(folding_s(100, few, first=10**6 + n) for n in range(0, 1000, 100))
    among = min(folding_s(100, many, first=10**6 + n) for n in range(0, 1000, 100))

    assert len(many.cells) == 10 * KEYS_AT_ONCE + 1000
    assert among < 5 * alone


def test_a_full_schedule_that_drops_its_oldest_keys_does_not_look_at_all_of_them() -> None:
    full = engine(join(at_most=KEYS_AT_ONCE, full=OnFull.DROP_OLDEST))
    full.tell(START, dates(KEYS_AT_ONCE))
    room = engine(join(full=OnFull.DROP_OLDEST))
    room.tell(START, dates(KEYS_AT_ONCE))

    dropping = min(folding_s(10, full, first=10**6 + n) for n in range(0, 100, 10))
    adding = min(folding_s(10, room, first=10**6 + n) for n in range(0, 100, 10))

    assert full.state is not None
    assert full.state.dropped == full.state.lost == 100
    assert dropping < 20 * adding


def test_an_event_of_too_many_keys_is_refused_whole_and_what_comes_after_it_counts() -> None:
    made = engine(join())

    folded = made.tell(START, dates(KEYS_AT_ONCE + 1))

    assert folded.verdict is not None
    assert folded.verdict.verdict is Verdict.REFUSED
    assert [type(effect) for effect in folded.effects] == [Refuse]
    assert str(KEYS_AT_ONCE) in folded.verdict.why
    assert not made.cells
    assert made.state is not None
    assert (made.state.refused, made.state.lost) == (1, 0)
    made.tell(START, dates(1))
    made.tell(START, dates(1, dataset=B))
    assert [job.key for _, job in made.jobs] == ["0"]


def test_years_fanned_out_to_hours_are_bounded_too() -> None:
    made = engine(Per(Partitions(A, 2), ("year",), Grain.YEAR, fanned_out_to=Grain.HOUR, at_most=10**6))
    years = tuple(Partition(f"year={n}", {"year": str(n)}) for n in range(1000, 3000))

    folded = made.tell(START, Occurred(Event("e", "test", START, PartitionsAdded(A, years, len(years)))))

    assert folded.verdict is not None
    assert folded.verdict.verdict is Verdict.REFUSED


def test_what_would_open_a_key_too_many_is_refused_and_counts_once_there_is_room() -> None:
    made = engine(join(at_most=3))
    made.tell(START, dates(2))

    refused = made.tell(START, dates(2, first=2))

    assert refused.verdict is not None
    assert refused.verdict.verdict is Verdict.REFUSED
    assert "3 correlation keys may be open (`at_most`); 2 were, and it would have opened 1 too many" in (
        refused.verdict.why
    )
    assert set(made.cells) == {"0", "1"}
    made.tell(START, dates(2, dataset=B))  # both fire and close
    replayed = made.tell(START, dates(2, first=2))
    assert replayed.verdict is not None
    assert replayed.verdict.verdict is Verdict.COUNTED
    assert set(made.cells) == {"2", "3"}


def test_keys_that_have_expired_make_room_though_no_wake_up_came() -> None:
    made = engine(join(at_most=2))
    made.tell(START, dates(2))

    folded = made.tell(START + EXPIRES, dates(1, first=2))

    assert folded.verdict is not None
    assert folded.verdict.verdict is Verdict.COUNTED
    assert made.state is not None
    assert (made.state.lost, made.state.dropped, made.state.refused) == (1, 0, 0)


def test_an_event_that_drops_keys_says_which() -> None:
    made = engine(join(at_most=2, full=OnFull.DROP_OLDEST))
    made.tell(START, dates(2))

    folded = made.tell(START, dates(1, first=2))

    assert folded.verdict is not None
    assert folded.verdict.verdict is Verdict.COUNTED
    assert folded.verdict.why == "dropped the keys open longest, too many were open: 1 (0)"
    assert made.state is not None
    assert (made.state.lost, made.state.dropped) == (1, 1)


def test_a_verdict_names_some_keys_and_says_how_many_there_are() -> None:
    folded = engine(join()).tell(START, dates(CELLS_NAMED + 1))

    assert folded.verdict is not None
    assert len(folded.verdict.cells) == CELLS_NAMED
    assert folded.verdict.why == f"{CELLS_NAMED + 1} keys in all"


def test_a_definition_that_allows_fewer_keys_keeps_those_that_are_open() -> None:
    made = engine(join(at_most=10))
    made.tell(START, dates(5))

    made.tell(START, Put(REF, 2, True, join(at_most=2), keep=True))

    assert len(made.cells) == 5
    assert made.tell(START, dates(1, first=9)).verdict.verdict is Verdict.REFUSED  # type: ignore[union-attr]
    made.tell(START, dates(1, dataset=B))
    assert [job.key for _, job in made.jobs] == ["0"]

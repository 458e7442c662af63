"""Dividing what a leaf has between a job and what stays loses nothing, doubles nothing and keeps the order."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.events.event import Event, Fact, PartitionsAdded, StreamSize
from streamsched.domain.events.event_list import EventList
from streamsched.domain.names import DatasetRef, StreamRef
from streamsched.domain.triggers.event_slice import measure_commit, surplus_of, take_oldest
from streamsched.domain.triggers.trigger import Measure
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples

AT = datetime(2013, 1, 7, tzinfo=UTC)
USUAL = examples(100)
FLIGHTS, CLICKS = DatasetRef("default", "flights"), StreamRef("default", "clicks")


def several(facts: st.SearchStrategy[Fact]) -> st.SearchStrategy[EventList]:
    some = st.lists(facts, min_size=1, max_size=5)
    return some.map(lambda each: EventList(Event(f"e{place}", "test", AT, fact) for place, fact in enumerate(each)))


COMMITS = several(world.small_commits(FLIGHTS))
GROWTHS = several(st.integers(1, 9).map(lambda size: StreamSize(CLICKS, size, absolute=False)))
ANY = st.tuples(COMMITS, st.none() | st.sampled_from(Measure)) | st.tuples(GROWTHS, st.none())


def amount(events: Iterable[Event], measure: Measure | None) -> int:
    facts = [event.fact for event in events]
    commits = sum(measure_commit(fact, measure) for fact in facts if isinstance(fact, PartitionsAdded))
    return commits + sum(fact.bytes for fact in facts if isinstance(fact, StreamSize))


def named(events: Iterable[Event]) -> list[tuple[str, object]]:
    """Each named partition with its event, in order."""
    return [(e.id, each) for e in events if isinstance(e.fact, PartitionsAdded) for each in e.fact.partitions]


@USUAL
@given(ANY, st.integers(1, 20))
def test_the_oldest_and_the_rest_are_all_there_was(some: tuple[EventList, Measure | None], wanted: int) -> None:
    events, measure = some

    taken = take_oldest(events, wanted, measure)

    assert taken.amount == amount(taken.events, measure)
    assert taken.amount + amount(taken.rest, measure) == amount(events, measure)
    assert named(taken.events) + named(taken.rest) == named(events)
    if taken.rest:
        assert taken.amount >= wanted
    if measure is None:
        assert taken.amount == min(wanted, amount(events, None))


@USUAL
@given(ANY, st.integers(0, 20))
def test_the_newest_are_what_is_left_when_no_more_than_the_surplus_goes(
    some: tuple[EventList, Measure | None], surplus: int
) -> None:
    events, measure = some

    dropped, _, left = surplus_of(events, surplus, measure)

    assert dropped <= surplus
    assert dropped + amount(left, measure) == amount(events, measure)
    assert named(events)[len(named(events)) - len(named(left)) :] == named(left)
    if measure is None:
        assert dropped == min(surplus, amount(events, None))


@USUAL
@given(COMMITS, st.integers(1, 20))
def test_no_part_of_a_commit_counts_fewer_partitions_than_it_names(events: EventList, wanted: int) -> None:
    taken = take_oldest(events, wanted, None)
    for event in (*taken.events, *taken.rest):
        assert isinstance(event.fact, PartitionsAdded)
        assert event.fact.count >= max(1, len(event.fact.partitions))

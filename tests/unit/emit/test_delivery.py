"""What a delivery decides, driven by hand: no far end, no clock, no waiting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import Refusal
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.emit.delivery import (
    Accepted,
    Answer,
    DeliveryResult,
    EncodedEvent,
    Refused,
    RetryAfter,
    RetryLimits,
    Send,
    Step,
    TooLarge,
    Unreachable,
    backoff,
    batches,
    delivery,
)

NOW = datetime(2013, 1, 1, tzinfo=UTC)
SOON = timedelta(milliseconds=1)


def encoded(count: int, size: int = 10) -> list[EncodedEvent]:
    fact = CustomHappened(EventName("default", "e"))
    return [EncodedEvent(Event(str(n), "test", NOW, fact), b"x" * size) for n in range(count)]


def ids(step: Step) -> list[str]:
    assert isinstance(step, Send)
    return [each.event.id for each in step.encoded]


def driven(
    given: list[EncodedEvent], patience: RetryLimits, answer: Callable[[Send], Answer]
) -> tuple[list[Step], DeliveryResult]:
    """Carries a delivery out with a far end that is a function; returns the steps it took and what came of it."""
    steps, reported = [], None
    run = delivery(given, patience, lambda: 0.5)
    while True:
        try:
            step = run.send(reported)
        except StopIteration as end:
            return steps, end.value
        steps.append(step)
        reported = answer(step) if isinstance(step, Send) else None


def test_everything_goes_in_order_in_as_few_requests_as_fit() -> None:
    steps, outcome = driven(encoded(5), RetryLimits(batch_events=2), lambda _: Accepted(SOON))

    assert [ids(step) for step in steps] == [["0", "1"], ["2", "3"], ["4"]]
    assert outcome == DeliveryResult(5, (), ())


def test_a_bad_event_is_named_by_its_place_in_the_whole_and_stops_no_other() -> None:
    def answer(send: Send) -> Answer:
        return Refused(SOON, (Refusal(1, "$.data", "bad"),)) if ids(send) == ["2", "3"] else Accepted(SOON)

    _, outcome = driven(encoded(5), RetryLimits(batch_events=2), answer)

    assert outcome == DeliveryResult(4, (Refusal(3, "$.data", "bad"),), ())


def test_a_far_end_that_comes_back_gets_the_same_batch_again() -> None:
    answers: list[Answer] = [Unreachable(SOON, "down"), Unreachable(SOON, "down"), Accepted(SOON)]

    steps, outcome = driven(encoded(1), RetryLimits(), lambda _: answers.pop(0))

    assert [type(step) for step in steps] == [Send, RetryAfter, Send, RetryAfter, Send]
    first, second = (step.pause for step in steps if isinstance(step, RetryAfter))
    assert second == 2 * first
    assert outcome == DeliveryResult(1, (), ())


def test_past_the_deadline_the_rest_is_left_in_order() -> None:
    given = encoded(3)

    def answer(send: Send) -> Answer:
        return Accepted(SOON) if ids(send) == ["0"] else Unreachable(timedelta(seconds=20), "down")

    steps, outcome = driven(given, RetryLimits(batch_events=1), answer)

    assert outcome == DeliveryResult(1, (), tuple(given[1:]), "down")
    assert sum(isinstance(step, Send) for step in steps) == 3


def test_the_far_end_may_ask_for_a_longer_wait() -> None:
    answers: list[Answer] = [Unreachable(SOON, "busy", timedelta(seconds=7)), Accepted(SOON)]

    steps, _ = driven(encoded(1), RetryLimits(), lambda _: answers.pop(0))

    assert steps[1] == RetryAfter(timedelta(seconds=7))


def test_a_request_that_is_too_large_is_halved_until_it_fits() -> None:
    steps, outcome = driven(
        encoded(5), RetryLimits(), lambda s: TooLarge(SOON) if len(s.encoded) > 2 else Accepted(SOON)
    )

    assert [ids(step) for step in steps] == [["0", "1", "2", "3", "4"], ["0", "1"], ["2", "3", "4"], ["2"], ["3", "4"]]
    assert outcome == DeliveryResult(5, (), ())


def test_one_event_that_is_too_large_is_refused_alone() -> None:
    _, outcome = driven(encoded(3), RetryLimits(), lambda s: TooLarge(SOON) if "1" in ids(s) else Accepted(SOON))

    assert (outcome.accepted, [bad.index for bad in outcome.refusals], outcome.left) == (2, [1], ())


@given(
    sizes=st.lists(st.integers(1, 40), max_size=30),
    events=st.integers(1, 5),
    room=st.integers(1, 60),
    seed=st.randoms(),
)
def test_every_event_ends_in_exactly_one_place(sizes: list[int], events: int, room: int, seed: object) -> None:
    given = [EncodedEvent(each.event, b"x" * size) for each, size in zip(encoded(len(sizes)), sizes, strict=True)]
    taken: list[str] = []

    def answer(send: Send) -> Answer:
        kind = seed.randrange(5)  # type: ignore[attr-defined]
        if kind == 0:
            return Unreachable(timedelta(seconds=1), "down")
        if kind == 1:
            return TooLarge(SOON)
        if kind == 2:
            taken.extend(ids(send)[1:])
            return Refused(SOON, (Refusal(0, "$", "bad"),))
        taken.extend(ids(send))
        return Accepted(SOON)

    _, outcome = driven(given, RetryLimits(batch_events=events, batch_bytes=room), answer)

    refused = [str(bad.index) for bad in outcome.refusals]
    left = [each.event.id for each in outcome.left]
    assert sorted(taken + refused + left, key=int) == [str(n) for n in range(len(given))]
    assert taken == sorted(taken, key=int)
    assert outcome.accepted == len(taken)


@given(sizes=st.lists(st.integers(1, 40), max_size=30), events=st.integers(1, 5), room=st.integers(1, 60))
def test_a_batch_is_within_its_bounds_unless_it_is_one_event(sizes: list[int], events: int, room: int) -> None:
    given = [EncodedEvent(each.event, b"x" * size) for each, size in zip(encoded(len(sizes)), sizes, strict=True)]

    cuts = batches(given, RetryLimits(batch_events=events, batch_bytes=room))

    assert [place for cut in cuts for place in cut] == list(range(len(given)))
    for cut in cuts:
        assert len(cut) <= events
        assert len(cut) == 1 or sum(sizes[place] for place in cut) <= room


def test_waits_grow_to_a_cap_and_are_jittered_in_full() -> None:
    patience = RetryLimits(first=timedelta(seconds=1), cap=timedelta(seconds=5))

    assert [backoff(n, patience, lambda: 1.0).total_seconds() for n in range(5)] == [1, 2, 4, 5, 5]
    assert backoff(10**9, patience, lambda: 0.0) == timedelta(0)

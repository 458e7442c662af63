"""Items of a backfill: compared with a naive model of their span; the state machine and the counts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamsched.cli.commands.backfill import progress
from streamsched.cli.progress_bar import bar
from streamsched.codec.backfills import request_from_json, request_to_json, same_request
from streamsched.domain.backfills.backfill import ItemState, KnownOutcome, Only, known_outcome
from streamsched.domain.backfills.items import items_of
from streamsched.domain.backfills.key_values import KeyValues, parse_values
from streamsched.domain.backfills.request import MOST_ITEMS, BackfillRequest, KeySpan, PartitionSpan, Span, TickSpan
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import Partition, PartitionsAdded
from streamsched.domain.jobs.submission import backfill_id, backfill_job_id
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.composite import AllOf, AnyOf
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import Cron, CustomEvent, Every, Partitions, Trigger

REF = ScheduleRef("default", "app", "daily")
FLIGHTS = DatasetRef("default", "flights")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAILY = Cron("0 6 * * *")
GO = CustomEvent(EventName("default", "go"))


def items(trigger: Trigger, span: Span, now: datetime = NOW) -> Any:
    owner = Schedule(REF, ProgramRef("default", "app", "load"), trigger)
    return items_of(owner, span, generation=3, created_at=NOW - timedelta(days=10), now=now)


def instants() -> st.SearchStrategy[datetime]:
    return st.datetimes(datetime(2026, 2, 1), datetime(2026, 3, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(
    instants(),
    instants(),
    st.lists(st.sampled_from([DAILY, Cron("*/40 * * * *", "Europe/Berlin"), Every(timedelta(hours=7))]), min_size=1),
)
def test_ticks_are_those_of_all_clocks_in_the_span_each_once_in_order(
    begin: datetime, end: datetime, clocks: list[Any]
) -> None:
    assume(begin <= end)
    expected = set()
    for clock in clocks:
        due = next_fire(clock, datetime(2026, 1, 31, tzinfo=UTC), created_at=NOW - timedelta(days=10))
        while due is not None and due <= end:
            if due >= begin:
                expected.add(due)
            due = next_fire(clock, due, created_at=NOW - timedelta(days=10))
    span = TickSpan(begin.isoformat(), end.isoformat())
    trigger = AnyOf(tuple(clocks)) if len(clocks) > 1 else clocks[0]
    if not expected:
        with pytest.raises(InvalidError, match="without ticks"):
            items(trigger, span)
        return

    found = items(trigger, span)

    assert [item.logical_at for item in found] == sorted(expected)
    for item in found:
        ticked = [event.fact.due_at for part in item.contributions for event in part.events]
        assert set(ticked) == {item.logical_at}
        assert len({part.leaf for part in item.contributions}) == len(item.contributions)


def test_dates_are_whole_days_in_the_zone_of_the_clock() -> None:
    hourly = Cron("0 * * * *", "America/New_York")
    found = items(hourly, TickSpan("2026-02-01", "2026-02-02"))

    assert len(found) == 48
    assert found[0].logical_at == datetime(2026, 2, 1, 5, tzinfo=UTC)
    dst = items(Cron("0 * * * *", "Europe/Berlin"), TickSpan("2026-03-29", "2026-03-29"), NOW + timedelta(days=60))
    assert len(dst) == 23, "a day of a change of clocks"
    today = items(hourly, TickSpan("2026-03-01", "2026-03-01"))
    assert today[-1].logical_at == NOW, "today ends now"


@pytest.mark.parametrize(
    ("trigger", "span", "said"),
    [
        (GO, TickSpan("2026-02-01", "2026-02-02"), r"\$\.from: is given, but the schedule's trigger has no clock"),
        (DAILY, TickSpan("2026-02-02", "2026-02-01"), r"\$\.to: is 2026-02-01, before the beginning .* reversed"),
        (DAILY, TickSpan("2026-02-01", "2026-03-02"), r"\$\.to: is 2026-03-02, in the future"),
        (DAILY, TickSpan("2026-02-01T00:00", "2026-02-02"), r"\$\.from: is '2026-02-01T00:00': name its offset"),
        (DAILY, TickSpan("2026-02-30", "2026-03-01"), r"\$\.from: is '2026-02-30', which is no date"),
        (DAILY, TickSpan("\0", "2026-03-01"), r"\$\.from: is '.', which is no date"),
        (DAILY, TickSpan("0001-01-01", "2026-03-01"), r"\$\.from: must be from year 1000"),
        (DAILY, TickSpan("2026-02-01", "9999-12-31"), r"\$\.to: must be from year 1000"),
        (DAILY, TickSpan("2026-02-01T07:00Z", "2026-02-01T08:00Z"), r"\$\.to: leaves the span without ticks: cron"),
        (Cron("* * * * *"), TickSpan("2025-01-01", "2026-02-01"), r"\$\.to: makes .* more than 100000 ticks; split it"),
        (GO, KeySpan({"date": parse_values("x", "$")}), r"\$\.keys: is given, but the schedule's trigger has no key"),
        (Per(GO, ("date",)), KeySpan({"day": parse_values("x", "$")}), r"\$\.keys: names day, but .* key is date"),
        (Per(GO, ("a", "b")), KeySpan({"a": parse_values("x", "$")}), r"\$\.keys: names a, but .* is a and b"),
        (Per(GO, ("a",)), KeySpan({"a": KeyValues(((),))}), r"\$\.keys: leaves the span without keys"),
        (
            Per(GO, ("a", "b")),
            KeySpan({"a": parse_values("1..1000", "$"), "b": parse_values("1..1000", "$")}),
            r"\$\.keys: name 1000000 keys or more; at most 100000",
        ),
        (
            Per(GO, ("d",), Grain.DAY, fanned_out_to=Grain.HOUR),
            KeySpan({"d": parse_values("2026-01-01", "$")}),
            r"\$\.keys: d='2026-01-01' is 24 keys",
        ),
        (GO, PartitionSpan(FLIGHTS, (Partition("a=1", {"a": "1"}),)), r"\$\.dataset: is default\.flights, for which"),
        (
            Per(GO, ("h",), Grain.HOUR, zone="Europe/Berlin"),
            KeySpan({"h": parse_values("2026-03-29T02", "$")}),
            r"\$\.keys: is none: h='2026-03-29T02' names no hour: clocks of Europe/Berlin skip it",
        ),
        (
            Per(Partitions(FLIGHTS), ("b",)),
            PartitionSpan(FLIGHTS, (Partition("a=1", {"a": "1"}),)),
            r"\$\.partitions: leaves the span without jobs: none of 1 partitions counts",
        ),
    ],
)
def test_a_span_that_does_not_fit_is_refused(trigger: Trigger, span: Span, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        items(trigger, span)


@given(st.integers(-3000, 3000), st.integers(0, 300), st.booleans())
def test_a_range_of_numbers_has_each_once(first: int, more: int, padded: bool) -> None:
    last = first + more
    texts = (f"{first:06d}", f"{last:06d}") if padded else (str(first), str(last))
    assume(not any(len(text) == 4 and int(text) == 0 for text in texts))
    found = list(parse_values("..".join(texts), "$"))

    assert [int(each) for each in found] == list(range(first, last + 1))
    assert (found[0], found[-1]) == texts


@given(st.dates(date(1000, 1, 1), date(9000, 1, 1)), st.integers(0, 100))
def test_a_range_of_days_has_each_once(first: date, more: int) -> None:
    days = [(first + timedelta(days=n)).isoformat() for n in range(more + 1)]

    assert list(parse_values(f"{days[0]}..{days[-1]}", "$")) == days
    if more:
        with pytest.raises(InvalidError, match="is reversed"):
            parse_values(f"{days[-1]}..{days[0]}", "$")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2025-11..2026-02", ["2025-11", "2025-12", "2026-01", "2026-02"]),
        ("2024..2025", ["2024", "2025"]),
        ("2026-01-01T23..2026-01-02T01", ["2026-01-01T23", "2026-01-02T00", "2026-01-02T01"]),
        ("a, b ,9..11", ["a", "b", "9", "10", "11"]),
        ("2026-02-27..2026-03-01,x", ["2026-02-27", "2026-02-28", "2026-03-01", "x"]),
    ],
)
def test_values_and_ranges(text: str, values: list[str]) -> None:
    assert list(parse_values(text, "$")) == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has an empty value"),
        ("a,,b", "has an empty value"),
        ("a..", "has an empty value"),
        ("..b", "has an empty value"),
        ("a..b", "is neither one of hours"),
        ("2026-01..2026-01-05", "is neither one of hours"),
        ("2026-02-30..2026-03-01", "is neither one of hours"),
        ("2026-01-01 05..2026-01-01 07", "is neither one of hours"),
        ("9..1", "is reversed"),
    ],
)
def test_a_wrong_range_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        parse_values(text, "$.keys.date")


@given(
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6),
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6),
)
@example(["a/b", "a"], ["c", "b/c"])
def test_keys_are_all_combinations_each_once(first: list[str], second: list[str]) -> None:
    found = items(Per(GO, ("a", "b")), KeySpan({"a": KeyValues((first,)), "b": KeyValues((second,))}))

    expected = list(dict.fromkeys(product(first, second)))
    assert [(each.columns["a"], each.columns["b"]) for each in found] == expected
    assert len({each.key for each in found}) == len(found)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 5))
def test_each_partition_is_in_one_job_of_the_size_that_the_trigger_waits_for(days: list[int], size: int) -> None:
    named = tuple(Partition(f"d={day:02d}", {"d": f"{day:02d}"}) for day in days)

    found = items(Partitions(FLIGHTS, size), PartitionSpan(FLIGHTS, named))

    keys = [_keys(item) for item in found]
    assert [key for some in keys for key in some] == sorted({each.key for each in named})
    assert all(len(some) == size for some in keys[:-1])
    assert [tuple(some) for some in keys] == [item.marks for item in found]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_partitions_of_a_key_are_one_job(rows: list[tuple[int, int]]) -> None:
    named = tuple(Partition(f"d={d}/h={h}", {"d": str(d), "h": str(h)}) for d, h in rows)
    expected: dict[str, set[str]] = {}
    for each in named:
        expected.setdefault(each.values["d"], set()).add(each.key)
    trigger = Per(AllOf((Partitions(FLIGHTS), Partitions(DatasetRef("default", "other")))), ("d",))

    found = items(trigger, PartitionSpan(FLIGHTS, named))

    assert {item.key: set(_keys(item)) for item in found} == expected
    assert [item.key for item in found] == sorted(expected)


def test_a_roll_up_takes_all_its_finer_periods() -> None:
    named = tuple(Partition(f"hour=2026-02-01T{h:02d}", {"hour": f"2026-02-01T{h:02d}"}) for h in range(24))
    (item,) = items(
        Per(Partitions(FLIGHTS), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY), PartitionSpan(FLIGHTS, named)
    )

    assert (item.key, len(_keys(item)), item.contributions[0].count) == ("2026-02-01", 24, 24)


def _keys(item: Any) -> list[str]:
    facts = [event.fact for part in item.contributions for event in part.events]
    assert all(isinstance(fact, PartitionsAdded) for fact in facts)
    return [each.key for fact in facts for each in fact.partitions]


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(ItemState)), st.lists(st.sampled_from("abc"), min_size=1)
)
def test_an_item_is_as_bad_as_the_worst_of_its_marks(states: Mapping[str, ItemState], marks: list[str]) -> None:
    known = known_outcome(states, tuple(marks))
    of_marks = [known_outcome(states, (mark,)) for mark in marks]

    assert known is min(
        of_marks, key=[KnownOutcome.MISSING, KnownOutcome.FAILED, KnownOutcome.ACTIVE, KnownOutcome.SUCCEEDED].index
    )
    assert Only.ALL.takes(known)
    assert Only.MISSING.takes(known) == (known is KnownOutcome.MISSING)
    assert Only.FAILED.takes(known) == (known is KnownOutcome.FAILED)


@given(st.text(min_size=1, max_size=255), st.text(min_size=1, max_size=255), st.integers(1, MOST_ITEMS))
def test_jobs_of_two_backfills_have_different_ids(one: str, other: str, number: int) -> None:
    first, second = backfill_id(REF, one), backfill_id(REF, other)
    assume(first != second)
    for several in (1, number, number * 10):
        assert backfill_job_id(first, number) != backfill_job_id(second, several)


@given(
    st.one_of(
        st.fixed_dictionaries({"from": st.just("2026-02-01"), "to": st.just("2026-02-02")}),
        st.fixed_dictionaries(
            {"keys": st.dictionaries(st.text(min_size=1), st.lists(st.text(min_size=1), min_size=1), min_size=1)}
        ),
        st.just({"keys": {"date": "2026-02-01..2026-02-03,x"}}),
        st.just({"dataset": "flights", "partitions": ["a=1/b=2", {"key": "c=3"}]}),
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "only": st.sampled_from(["missing", "FAILED", "all"]),
            "order": st.sampled_from(["oldest", "newest"]),
            "maxActive": st.integers(1, 1000),
            "mute": st.booleans(),
            "confirmed": st.booleans(),
        },
    ),
)
def test_a_stored_request_is_recognised(span: dict[str, Any], options: dict[str, Any]) -> None:
    request = request_from_json(REF, "t", {**span, **options, "reason": "ann"})
    stored = request_to_json(request)

    assert same_request({**stored, "reason": "bob"}, request)
    assert not same_request({**stored, "maxActive": request.max_active + 1}, request)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, r"\$: must have one span: .* it has none"),
        ({"from": "2026-01-01"}, r"\$\.to: is missing"),
        ({"from": "a", "to": "b", "keys": {"a": "b"}}, r"\$: must have one span: .*`from` and `to` and `keys`"),
        ({"keys": {}}, r"\$\.keys: names no column"),
        ({"keys": {"date": 3}}, r"\$\.keys\.date: must be a text or a list of texts but is a number"),
        ({"keys": {"date": ["a", 3]}}, r"\$\.keys\.date\[1\]: must be a text"),
        ({"partitions": ["a=1"]}, r"\$\.dataset: is missing"),
        ({"dataset": "flights", "partitions": []}, r"\$\.partitions: is empty"),
        ({"dataset": "flights", "partitions": [3]}, r"\$\.partitions\[0\]"),
        ({"keys": {"a": "b"}, "maxActive": 1001}, r"\$\.maxActive: must be from 1 to 1000 but is 1001"),
        ({"keys": {"a": "b"}, "maxActive": 0}, r"\$\.maxActive: must be from 1 to 1000"),
        ({"keys": {"a": "b"}, "only": "some"}, r"\$\.only: must be one of missing, failed, all"),
        (
            {"keys": {"a": "b"}, "arguments": {"x": "y" * 32_768, "z": "y" * 32_768}},
            r"\$\.arguments: must have at most",
        ),
        ({"keys": {"a": "b"}, "arguments": {"x": "\0"}}, r"\$\.arguments\.x: must not hold a NUL"),
        ({"keys": {"a": "b"}, "max": 3}, r"\$\.max: unknown field"),
    ],
)
def test_a_wrong_request_is_refused_with_the_path(body: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        request_from_json(REF, "t", body)


@pytest.mark.parametrize("name", ["date", "key.date", "trigger.key", "logical.start.time"])
def test_an_argument_that_hides_what_a_job_is_about_is_refused(name: str) -> None:
    request = BackfillRequest(REF, "t", KeySpan({"date": parse_values("a", "$")}), arguments={name: "x"})
    owner = Schedule(REF, ProgramRef("default", "app", "load"), Per(GO, ("date",)))

    with pytest.raises(InvalidError, match=rf"\$\.arguments\.{name}: is a "):
        request.check_arguments(owner)


@given(st.lists(st.integers(0, 100_000), min_size=4, max_size=4), st.integers(3, 80))
def test_a_bar_has_its_width_and_shows_no_more_than_there_is(numbers: list[int], width: int) -> None:
    whole = sum(numbers)
    parts = dict(zip("#!>", numbers[:3], strict=True))
    shown = bar(parts, whole, width=width)

    assert (len(shown), shown[0], shown[-1]) == (width, "[", "]")
    for mark, number in parts.items():
        assert shown.count(mark) <= max(1, number * width // max(1, whole))
        assert number or not shown.count(mark)
    assert "." in shown[1:-1] or numbers[3] <= 4 * whole / (width - 2) or not whole


def test_the_progress_fits_in_80_columns() -> None:
    names = ("succeeded", "failed", "dropped", "active", "waiting")
    counts = dict.fromkeys(names, 20000) | {"jobs": 100_000}

    assert all(len(line) <= 80 for line in progress(counts).splitlines())
    assert progress(dict.fromkeys(names, 0) | {"jobs": 0}).splitlines()[0].endswith("  0%")


@pytest.mark.parametrize(
    ("trigger", "column", "span", "keys"),
    [
        (Per(GO, ("h",), Grain.HOUR, zone="Europe/Berlin"), "h", "2026-03-29T00..2026-03-29T23", 23),
        (Per(GO, ("h",), Grain.HOUR, zone="Europe/Berlin"), "h", "2026-10-25T00..2026-10-25T23", 25),
        (Per(GO, ("h",), Grain.HOUR), "h", "2026-03-29T00..2026-03-29T23", 24),
        (Per(GO, ("day", "hour"), Grain.HOUR, zone="Europe/Berlin"), "hour", "2026-03-29T00..2026-03-29T23", 23),
        (Per(GO, ("h",), Grain.HOUR, Grain.DAY), "day", "2026-03-28..2026-03-30", 3),
        (Per(GO, ("w",), Grain.WEEK), "w", "2025-W51..2026-W02", 4),
        (Per(GO, ("d",), Grain.DAY, zone="Pacific/Apia"), "d", "2011-12-29..2012-01-01", 3),
    ],
)
def test_a_range_has_the_periods_of_the_zone(trigger: Trigger, column: str, span: str, keys: int) -> None:
    found = items(trigger, KeySpan({column: parse_values(span, "$")}))

    assert len(found) == keys
    assert len({item.key for item in found}) == keys

"""The growth of a topic against a log in memory that remembers every record."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.events.topic_growth import (
    SAMPLE,
    CountedTopic,
    Growth,
    PartitionSize,
    TopicSize,
    begin_count,
    measure_growth,
)
from streamsched.spark.streaming.topic_position import StreamMeasure, TopicPosition, UnsentGrowth


@dataclass
class Log:
    """Partitions with the sizes of all records ever appended, of which the first ones are deleted."""

    id: str = "a"
    records: list[list[int]] = field(default_factory=lambda: [[]])
    starts: list[int] = field(default_factory=lambda: [0])
    leaders: list[int] = field(default_factory=lambda: [1])
    away: set[int] = field(default_factory=set)

    def measured(self) -> TopicSize:
        found = {
            number: PartitionSize(self.leaders[number], self.starts[number], len(sizes), sum(sizes[start:]))
            for number, (sizes, start) in enumerate(zip(self.records, self.starts, strict=True))
            if number not in self.away
        }
        return TopicSize(self.id, found, tuple(sorted(self.away)))

    def appended(self) -> tuple[int, int]:
        """Bytes and records of the topic of this id, those that were deleted too."""
        return sum(map(sum, self.records)), sum(map(len, self.records))


Step = tuple[str, int, int]
sizes_of_records = st.integers(1, 5000)
quiet = st.tuples(st.sampled_from(["append", "append", "check", "add", "away"]), st.integers(0, 3), sizes_of_records)
steps = st.tuples(
    st.sampled_from(["append", "append", "delete", "check", "check", "add", "away", "lead"]),
    st.integers(0, 3),
    sizes_of_records,
)


def played(log: Log, had: CountedTopic, script: list[Step], *, of_size: int | None = None) -> tuple[list[Growth], int]:
    """The growth of each check, the last one with all partitions there; and how much a check ever took off."""
    found: list[Growth] = []
    least = 0

    def check() -> None:
        nonlocal had, least
        growth, had = measure_growth(had, log.measured())
        found.append(growth)
        least = min(least, growth.bytes, growth.records, growth.estimated)

    for what, number, size in script:
        at = number % len(log.records)
        match what:
            case "append":
                log.records[at] += [of_size or size] * (1 + size % 7)
            case "delete":
                log.starts[at] += size % (len(log.records[at]) - log.starts[at] + 1)
            case "lead":
                log.leaders[at] += 1
            case "add":
                log.records.append([of_size or size])
                log.starts.append(0)
                log.leaders.append(1)
            case "away":
                log.away ^= {at}
            case _:
                check()
    log.away.clear()
    check()
    return found, least


def totals(found: list[Growth]) -> tuple[int, int]:
    return sum(each.bytes for each in found), sum(each.records for each in found)


@given(st.lists(sizes_of_records, max_size=5), st.lists(quiet, max_size=40))
def test_without_deletion_every_byte_and_record_is_counted_once(first: list[int], script: list[Step]) -> None:
    log = Log(records=[first])
    before = log.appended()

    found, _ = played(log, begin_count(log.measured(), at_end=True), script)

    after = log.appended()
    assert totals(found) == (after[0] - before[0], after[1] - before[1])
    assert sum(each.estimated for each in found) == 0


@given(sizes_of_records, st.lists(steps, max_size=40))
def test_with_records_of_one_size_deletion_and_new_leaders_change_nothing(size: int, script: list[Step]) -> None:
    log = Log(records=[[size] * 3])
    had = begin_count(log.measured(), at_end=True)
    before = log.appended()

    found, least = played(
        log, had, [(what if what != "add" else "append", n, s) for what, n, s in script], of_size=size
    )

    after = log.appended()
    assert totals(found) == (after[0] - before[0], after[1] - before[1])
    assert least == 0


@given(st.lists(sizes_of_records, max_size=5), st.lists(steps, max_size=60))
def test_records_are_exact_and_bytes_lie_between_what_is_kept_and_the_largest_records(
    first: list[int], script: list[Step]
) -> None:
    log = Log(records=[first])
    before = log.appended()
    kept = sum(each.size for each in log.measured().partitions.values())

    found, least = played(log, begin_count(log.measured(), at_end=True), script)

    after = log.appended()
    size, records = totals(found)
    assert records == after[1] - before[1]
    assert least == 0
    exact = size - sum(each.estimated for each in found)
    assert exact <= after[0] - before[0]
    largest = max((each for sizes in log.records for each in sizes), default=0)
    assert size <= largest * records
    if not any(what == "lead" for what, _, _ in script):
        assert size >= sum(each.size for each in log.measured().partitions.values()) - kept


@given(st.lists(sizes_of_records, min_size=1, max_size=5), st.lists(sizes_of_records, min_size=1, max_size=5))
def test_a_topic_that_was_created_again_is_growth_as_a_whole(first: list[int], second: list[int]) -> None:
    had = begin_count(Log(records=[first]).measured(), at_end=True)

    growth, had = measure_growth(had, Log("b", records=[second]).measured())

    assert (growth.bytes, growth.records, growth.recreated) == (sum(second), len(second), True)
    assert measure_growth(had, Log("b", records=[second]).measured())[0] == Growth()


@given(st.lists(sizes_of_records, min_size=1, max_size=9), st.integers(0, 8))
def test_from_the_start_means_what_the_topic_holds(sizes: list[int], start: int) -> None:
    log = Log(records=[sizes], starts=[min(start, len(sizes))])
    now = log.measured()

    growth, _ = measure_growth(begin_count(now, at_end=False), now)

    kept = sizes[log.starts[0] :]
    assert (growth.bytes, growth.records, growth.estimated) == (sum(kept), len(kept), 0)


def test_the_mean_is_that_of_the_latest_records_and_stays_exact() -> None:
    end = SAMPLE * 3
    had = begin_count(TopicSize("a", {0: PartitionSize(1, 0, end, SAMPLE * 300)}), at_end=True)
    for n in range(1, 40):
        end += SAMPLE
        _, had = measure_growth(had, TopicSize("a", {0: PartitionSize(1, 0, end, SAMPLE * (300 + 1000 * n))}))

    growth, _ = measure_growth(had, TopicSize("a", {0: PartitionSize(1, end, end + 10, 0)}))

    assert 9_990 <= growth.bytes <= 10_000
    assert growth.estimated == growth.bytes


@given(st.lists(steps, max_size=20), st.sampled_from(StreamMeasure), st.none() | st.integers(1, 2**62))
def test_a_bookmark_keeps_what_has_been_counted(script: list[Step], measure: StreamMeasure, amount: int | None) -> None:
    log = Log()
    had = begin_count(log.measured(), at_end=True)
    played(log, had, script)
    _, had = measure_growth(had, log.measured())
    unsent = None if amount is None else UnsentGrowth("e", amount)
    position = TopicPosition("clicks", measure, had, unsent)

    assert TopicPosition.parse(position.text()) == position


@pytest.mark.parametrize(
    ("now", "size"),
    [
        pytest.param(PartitionSize(2, 0, 10, 150), 0, id="another copy is larger"),
        pytest.param(PartitionSize(2, 0, 12, 90), 20, id="another copy is smaller"),
        pytest.param(PartitionSize(1, 1, 11, 600), 500, id="the start moves inside a segment, a large record comes"),
        pytest.param(PartitionSize(1, 0, 11, 40), 10, id="compacted"),
        pytest.param(PartitionSize(1, 12, 12, 0), 20, id="all was deleted"),
        pytest.param(PartitionSize(1, 0, 8, 80), 0, id="truncated by an unclean election"),
    ],
)
def test_an_estimate_is_of_the_appended_records(now: PartitionSize, size: int) -> None:
    had = begin_count(TopicSize("a", {0: PartitionSize(1, 0, 10, 100)}), at_end=True)

    growth, _ = measure_growth(had, TopicSize("a", {0: now}))

    assert (growth.bytes, growth.estimated) == (size, size)

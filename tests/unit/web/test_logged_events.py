"""Reading the newest records of the log for pages, on a log in memory."""

from __future__ import annotations

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.api.reads.log_tail import LogSearch
from streamsched.api.reads.logged_events import newest_events, text_filter
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import Outgoing, Record, TopicPartition, TopicSpec


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("Flights", b'{"dataset": "flights"}', True),
        ("flights", b'{"dataset": "FLIGHTS"}', True),
        ("weather", b'{"dataset": "flights"}', False),
        ("straße", "in der STRASSE und der Stra\u00dfe".encode(), True),
        ("STRASSE", "Stra\u00dfe".encode(), True),
        ("\u00e9t\u00e9", b"ete", False),
        ("x", b"\xff\xfe x", True),
        ("x", None, False),
    ],
)
def test_a_record_contains_a_text_in_any_case(text: str, value: bytes | None, found: bool) -> None:
    assert text_filter(text)(Record(0, None, value, 0)) is found


async def test_a_search_keeps_the_newest_of_what_it_finds_and_counts_all() -> None:
    broker = MemoryBroker(MemoryLog())
    await broker.create_topics([TopicSpec(PARTITIONS, 2)])
    await broker.append([Outgoing(PARTITIONS, n % 2, None, b'{"n": %d}' % n) for n in range(100)])
    at = [TopicPartition(PARTITIONS, number) for number in (0, 1)]

    tail = await LogSearch(broker).tail(at, depth=40, wanted=lambda record: b"9" in (record.value or b""), most=3)
    assert (tail.searched, tail.whole) == (80, False)
    assert sorted(each.record.value or b"" for each in tail.records) == [b'{"n": %d}' % n for n in range(94, 100)]

    found = await newest_events(LogSearch(broker), [PARTITIONS], depth=100, text='"N": 4', limit=5)
    assert (found.searched, found.whole, len(found.events)) == (100, True, 5)
    assert all(b'"n": 4' in each.raw for each in found.events)


async def test_of_large_records_a_search_keeps_so_many_bytes_and_few_small_ones_beside_them() -> None:
    broker = MemoryBroker(MemoryLog())
    await broker.create_topics([TopicSpec(PARTITIONS, 2)])
    large = [Outgoing(PARTITIONS, 0, None, b'{"n": %d, "x": "%b"}' % (n, b"x" * 1_000)) for n in range(100)]
    await broker.append([*large, *(Outgoing(PARTITIONS, 1, None, b'{"n": %d}' % n) for n in range(5))])
    at = [TopicPartition(PARTITIONS, number) for number in (0, 1)]

    tail = await LogSearch(broker).tail(at, depth=1_000, most_bytes=10_000)

    assert (tail.searched, tail.whole) == (105, False)
    assert sum(len(each.record.value or b"") for each in tail.records) <= 10_000
    assert [each.record.offset for each in tail.records if each.at.partition == 1] == [4, 3, 2, 1, 0]
    kept = [each.record.offset for each in tail.records if each.at.partition == 0]
    assert kept == list(range(99, 90, -1))

"""PagerDuty's tasks: their JSON, the text of their keys, and the partition of an ordering id."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.dialects.pagerduty.codec.partitioner import murmur2, partition_of_id
from streamsched.dialects.pagerduty.codec.task import Task, TaskKey, decode, encode, is_too_late
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.tasks.task_retry import BackoffRetry

NOON = datetime(2016, 2, 9, 1, 41, 12, 959_000, tzinfo=UTC)
GOLDEN = (
    b'{"orderingId":"incident-1","scheduledTime":"2016-02-09T01:41:12.959Z","uniquenessKey":"notify-1",'
    b'"taskData":{"a":"b"},"version":1}'
)
TASK = Task("incident-1", NOON, "notify-1", {"a": "b"})
IDS = st.text(st.characters(codec="utf-8", exclude_characters=",\0"), min_size=1, max_size=60)
TIMES = st.timedeltas(timedelta(0), timedelta(days=80_000)).map(lambda each: NOON + each)


def test_the_record_of_a_task_is_that_of_its_clients() -> None:
    assert encode(TASK) == GOLDEN
    assert decode(GOLDEN) == TASK
    assert decode(GOLDEN.replace(b'"version":1', b'"later":[1]')) == TASK


@given(IDS, TIMES, IDS, st.dictionaries(st.text(), st.text(st.characters(codec="utf-8")), max_size=3))
def test_records_and_keys_come_back(ordering_id: str, time: datetime, key: str, data: dict[str, str]) -> None:
    task = Task(ordering_id, time, key, data)

    assert decode(encode(task)) == task
    assert TaskKey.parse(str(task.key)) == task.key
    assert timedelta(0) <= task.scheduled_time - time < timedelta(milliseconds=1), "never early"


def test_keys_order_by_time_ordering_id_and_uniqueness_key() -> None:
    keys = [
        TaskKey(NOON, "b", "a"),
        TaskKey(NOON, "a", "b"),
        TaskKey(NOON, "a", "a"),
        TaskKey(NOON - timedelta(1), "z", "z"),
    ]

    assert sorted(keys) == keys[::-1]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (None, "$"),
        (b"", "$"),
        (b"7", "$"),
        (b"{}", "$.orderingId"),
        (GOLDEN.replace(b'"incident-1"', b'""'), "$.orderingId"),
        (GOLDEN.replace(b"incident-1", b"a\\u0000"), "$.orderingId"),
        (GOLDEN.replace(b"incident-1", b"x" * 601), "$.orderingId"),
        (GOLDEN.replace(b"959Z", b"959"), "$.scheduledTime"),
        (GOLDEN.replace(b"2016", b"0001"), "$.scheduledTime"),
        (GOLDEN.replace(b'"notify-1"', b"1"), "$.uniquenessKey"),
        (GOLDEN.replace(b'"b"', b"1"), "$.taskData.a"),
        (GOLDEN.replace(b'"b"', b'"' + b"x" * 300_000 + b'"'), "$.taskData"),
        (GOLDEN.replace(b'"version":1', b'"version":2'), "$.version"),
    ],
)
def test_a_bad_record_is_refused_with_its_path(value: bytes | None, path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(value)

    assert refused.value.path == path


@pytest.mark.parametrize(
    "text",
    [
        *("", "TaskKey()", "TaskKey(x,a,b)", "TaskKey(2016-02-09T01:41:12Z,a,b,c)", "TaskKey(2016-02-09T01:41:12,a,b)"),
        *(f"TaskKey(2016-02-09T01:41:12Z,{ids})" for ids in ("", ",", "a,", ",b", "a", "a" * 9 + "," * 50 + "b")),
    ],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        TaskKey.parse(text)


ANY_IDS = st.text(st.sampled_from("ab,"), min_size=1, max_size=12)


@given(ANY_IDS, ANY_IDS)
def test_a_key_whose_ids_have_commas_is_among_the_readings_of_its_text(ordering_id: str, key: str) -> None:
    wanted = Task(ordering_id, NOON, key).key
    readings = TaskKey.readings(str(wanted))

    assert wanted in readings
    assert {str(each) for each in readings} == {str(wanted)}
    assert TaskKey.readings(str(wanted), ordering_id) == [wanted]


def test_an_ordering_id_that_the_text_has_not_is_refused() -> None:
    for text, ordering_id in (
        ("TaskKey(2016-02-09T01:41:12Z,a,b,c)", "a,b,c"),
        ("TaskKey(2016-02-09T01:41:12Z,a,b)", "b"),
    ):
        with pytest.raises(DecodeError):
            TaskKey.readings(text, ordering_id)


def test_a_task_is_checked_when_it_is_made() -> None:
    for wrong in (
        lambda: Task("a", NOON.replace(tzinfo=None), "k"),
        lambda: Task("a", NOON, "k", {"a": 1}),  # type: ignore[dict-item]
        lambda: Task("a", NOON, "k", {"a": "\ud800"}),
    ):
        with pytest.raises(InvalidError):
            wrong()


def test_the_grace_is_ten_seconds() -> None:
    assert not is_too_late(TASK, NOON + timedelta(seconds=10))
    assert is_too_late(TASK, NOON + timedelta(seconds=10, milliseconds=1))


@given(st.integers(2, 140), st.text(max_size=9))
def test_waits_are_theirs(attempt: int, token: str) -> None:
    """Before attempt n: w = min(120 s, 20 s x 2^(n-2)); the wait is from w/2 to w; there are at most 100 retries."""
    wait = BackoffRetry(100, timedelta(seconds=20), timedelta(seconds=120), 0.5).wait(token, attempt - 1)

    if attempt > 101:
        assert wait is None
    else:
        assert wait is not None
        longest = min(120, 20 * 2 ** (attempt - 2))
        assert longest / 2 - 0.001 <= wait.total_seconds() <= longest


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafka(key: bytes, expected: int) -> None:
    """The vectors are those of Kafka's own tests."""
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_ordering_ids_spread_evenly() -> None:
    drawn = random.Random(1)
    counts = [0] * 64
    for _ in range(20_000):
        counts[partition_of_id(f"{drawn.getrandbits(128):x}", 64)] += 1

    assert all(abs(count - 20_000 / 64) < 20_000 / 64 / 3 for count in counts)

"""Dapr's jobs against naive models: ticks second by second, JSON values against protobuf, round trips."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from streamsched.dialects.dapr.codec.job import DaprJob, timing
from streamsched.dialects.dapr.codec.moment import go_duration_text, point_in_time
from streamsched.dialects.dapr.codec.value import value_from_bytes, value_to_bytes
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.tasks.attempt import AttemptFailed, StartedTask, TaskEnds, TaskRetries, after_attempt
from streamsched.domain.tasks.recurrence import first_tick, next_tick
from streamsched.domain.tasks.task_retry import BackoffRetry, ConstantRetry
from streamsched.domain.time.duration import parse_go_duration

NOW = datetime(2026, 3, 1, 12, 0, 7, 250_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
#: Fields of cron, each with the values that it matches.
_SIXTIES = st.sampled_from(
    [
        ("*", range(60)),
        ("?", range(60)),
        ("7", (7,)),
        ("05", (5,)),
        ("50/5", (50, 55)),
        ("*/20", (0, 20, 40)),
        ("1-5/2", (1, 3, 5)),
        ("3,,59", (3, 59)),
    ]
)


@given(
    _SIXTIES, _SIXTIES, st.none() | st.integers(0, 300), st.none() | st.integers(1, 6), st.none() | st.integers(0, 900)
)
def test_a_cron_job_ticks_as_a_walk_second_by_second(
    second: tuple[str, range],
    minute: tuple[str, range],
    due: int | None,
    repeats: int | None,
    ttl: int | None,
) -> None:
    job = DaprJob(
        name="j",
        schedule=f"{second[0]} {minute[0]} * * * *",
        due_time=None if due is None else f"{due}s",
        repeats=repeats,
        ttl=None if ttl is None else f"{ttl}s",
    )
    base = NOW if due is None else NOW + due * SECOND
    horizon = base + timedelta(minutes=70)
    until = horizon if ttl is None else min(horizon, base + ttl * SECOND)
    expected = [] if due is None else [base]
    instant = base.replace(microsecond=0)
    while (instant := instant + SECOND) <= until:
        if instant.second in second[1] and instant.minute in minute[1]:
            expected.append(instant)
    expected = expected[:repeats]

    plan = timing(job, NOW)
    assert plan.recurrence is not None
    found: list[datetime] = []
    tick = first_tick(plan.recurrence, plan.due_at, NOW)
    while tick is not None and tick <= horizon and len(found) <= len(expected):
        found.append(tick)
        tick = next_tick(plan.recurrence, len(found), tick)
    assert found == expected


@given(st.integers(1, 10**13))
def test_an_interval_is_written_as_go_reads_it(microseconds: int) -> None:
    length = timedelta(microseconds=microseconds)

    assert parse_go_duration(go_duration_text(length)) == length


@given(st.datetimes(datetime(1000, 1, 2), datetime(4999, 1, 1)), st.integers(-23, 23), st.integers(0, 59))  # noqa: DTZ001
def test_an_instant_is_never_read_as_an_earlier_one(naive: datetime, hours: int, minutes: int) -> None:
    text = naive.isoformat(timespec="microseconds") + f"{hours:+03}:{minutes:02}"
    given_at = datetime.fromisoformat(text)

    assert point_in_time(text, NOW, "$") == given_at
    assert point_in_time(text[:26] + "001" + text[26:], NOW, "$") == given_at + timedelta(microseconds=1)


@given(st.text(alphabet="RP0123456789-+YMWDTHSnuµms./: Z", max_size=25), st.booleans())
def test_any_text_is_an_instant_or_refused(text: str, strict: bool) -> None:
    try:
        assert point_in_time(text, NOW, "$", strict=strict).tzinfo is UTC
    except InvalidError as exc:
        assert exc.path == "$"  # noqa: PT017


@given(JSON)
def test_a_json_value_is_read_as_it_was_written(value: Any) -> None:
    assert value_from_bytes(value_to_bytes(value)) == value


@given(JSON)
def test_a_json_value_is_the_same_to_protobuf(value: Any) -> None:
    message = struct_pb2.Value.FromString(value_to_bytes(value))

    theirs = json_format.ParseDict(value, struct_pb2.Value())
    assert message == theirs
    assert value_from_bytes(theirs.SerializeToString()) == json.loads(json_format.MessageToJson(theirs))


@given(st.binary(max_size=60))
def test_bytes_that_are_no_value_are_refused(content: bytes) -> None:
    try:
        value_from_bytes(content)
    except DecodeError as exc:
        assert exc.path == "$.data"  # noqa: PT017


@given(st.integers(0, 5000), st.none() | st.integers(0, 5), st.integers(0, 9), st.integers(0, 7000))
def test_a_failed_tick_is_tried_again_at_its_interval(
    interval_ms: int, retries: int | None, failures: int, took_ms: int
) -> None:
    policy = ConstantRetry(timedelta(milliseconds=interval_ms), retries)
    task = StartedTask(
        id="t",
        queue="q",
        lane="l",
        lane_id="l",
        partition=0,
        key="k",
        generation=1,
        due_at=NOW,
        planned_at=NOW,
        fired=0,
        failures=failures,
        started_at=NOW,
        retry=policy,
    )
    at = NOW + timedelta(milliseconds=took_ms)
    after = after_attempt(task, AttemptFailed(at, "no"), BackoffRetry())

    if retries is not None and failures + 1 > retries:
        assert isinstance(after, TaskEnds)
    else:
        least = interval_ms if retries is not None else max(interval_ms, 100)
        assert isinstance(after, TaskRetries)
        assert after.at == max(at, NOW + timedelta(milliseconds=least))

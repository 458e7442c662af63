"""What workers and owners of tasks send each other."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.tasks.worker import (
    MOST_REPORTED,
    DeliveredTask,
    WorkerReport,
    read_report,
    read_task,
    report_to_json,
    task_line,
)
from streamsched.domain.errors import DecodeError
from streamsched.domain.tasks.attempt import StartedTask

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NUMBERS = st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(TEXTS, TEXTS, st.binary(max_size=50), st.integers(0, 9))
def test_a_task_comes_back(lane: str, key: str, data: bytes, failures: int) -> None:
    task = StartedTask(
        id="i",
        queue="q",
        lane=lane,
        lane_id="l",
        partition=0,
        key=key,
        generation=1,
        due_at=NOON,
        planned_at=NOON,
        fired=0,
        failures=failures,
        started_at=NOON,
        data=data,
    )
    sent = task_line(7, task)

    assert sent.endswith(b"\n")
    assert sent.count(b"\n") == 1
    assert read_task(orjson.loads(sent)["task"]) == DeliveredTask(
        delivery=7,
        id="i",
        queue="q",
        lane=lane,
        key=key,
        attempt=failures + 1,
        due_at=NOON,
        content_type="",
        data=data,
    )


@given(NUMBERS, st.lists(st.tuples(st.integers(0, 9), TEXTS), max_size=3), NUMBERS, st.none() | st.integers(0, 1000))
def test_a_report_comes_back(
    done: tuple[int, ...], failed: list[tuple[int, str]], beats: tuple[int, ...], credit: int | None
) -> None:
    report = WorkerReport(done, tuple(failed), beats, credit)

    assert read_report(orjson.dumps(report_to_json(report))) == report


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"[]", "$"),
        (b'{"done": [true]}', "$.done[0]"),
        (b'{"done": ["1"]}', "$.done[0]"),
        (b'{"heartbeats": 1}', "$.heartbeats"),
        (b'{"failed": [{"delivery": 1}]}', "$.failed[0].reason"),
        (b'{"failed": [{"delivery": 1, "reason": "", "odd": 1}]}', "$.failed[0].odd"),
        (b'{"credit": 1001}', "$.credit"),
        (b'{"odd": 1}', "$.odd"),
        (orjson.dumps({"done": [1] * (MOST_REPORTED + 1)}), "$.done"),
    ],
)
def test_a_bad_report_is_refused_with_its_path(body: bytes, path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read_report(body)

    assert refused.value.path == path

"""Durations and times of every dialect at their extremes: each is a value or an `InvalidError`, nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.codec import event as events
from streamsched.codec.schedules.schedule import submitted_schedule_from_json
from streamsched.dialects.cdap.codec import schedule as cdap
from streamsched.dialects.dapr.codec.job import retry_of, timing
from streamsched.dialects.dapr.codec.job_json import job_from_json
from streamsched.dialects.pagerduty.codec import task as pagerduty
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import AppRef, ScheduleRef
from streamsched.domain.time.duration import parse_duration, parse_go_duration

NOW: Final = datetime(2026, 3, 1, 12, 0, 7, 250_000, tzinfo=UTC)
REF: Final = ScheduleRef("default", "app", "s")
_DIGITS: Final = st.integers(0, 400).map(lambda count: "9" * count)
_NUMBERS: Final = st.one_of(
    st.sampled_from(["0", "-1", "1", "2147483648", str(2**53), str(2**63), str(2**63 - 1), "999999999999", "1e308"]),
    st.integers(-(10**30), 10**30).map(str),
    _DIGITS,
)
_FORMS: Final = st.sampled_from(
    [
        *("{}", "{}s", "{}h", "{}h{}m", "-{}h", "{}.{}s", "{}w", "{}us", "{}ns"),
        *("PT{}H", "PT{}S", "PT{}M{}S", "P{}D", "P{}Y", "P{}M", "P{}W", "P{}DT{}H"),
        *("R{}/PT{}H", "R3/PT{}S", "R{}", "R{}/"),
        *("@every {}s", "@every {}h", "{}-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"),
        *("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"),
    ]
)
TEXTS: Final = st.builds(lambda form, one, other: form.format(one, other), _FORMS, _NUMBERS, _NUMBERS)
#: Numbers as JSON has them; there is none that no float or 64 bits hold.
INTEGERS: Final = st.sampled_from([0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 86_400_000 * 10**6])


def dapr(**members: Any) -> None:
    job, _ = job_from_json("j", json.dumps({"schedule": "@every 1s", **members}).encode())
    timing(job, NOW)
    retry_of(job.failure_policy)


def schedule(**members: Any) -> None:
    body = {"name": "s", "program": "p", "trigger": {"type": "TIME", "cronExpression": "0 4 * * *"}, **members}
    submitted_schedule_from_json(body, app=AppRef("default", "app"))


def cdap_schedule(**members: Any) -> None:
    program = {"programName": "p", "programType": "WORKFLOW"}
    lines = {"type": "PARTITION", "dataset": {"dataset": "l"}, "numPartitions": 2}
    cdap.from_json({"program": program, "trigger": lines, **members}, REF)


def native_trigger(**members: Any) -> None:
    schedule(trigger=members)


READERS: Final[dict[str, Callable[[str], object]]] = {
    "duration": parse_duration,
    "Go duration": parse_go_duration,
    "dapr schedule": lambda text: dapr(schedule=text),
    "dapr dueTime": lambda text: dapr(dueTime=text),
    "dapr ttl": lambda text: dapr(ttl=text),
    "dapr dueTime and ttl": lambda text: dapr(dueTime=text, ttl=text),
    "dapr interval": lambda text: dapr(failurePolicy={"constant": {"interval": text, "maxRetries": 1}}),
    "timeout": lambda text: schedule(timeout=text),
    "maxDuration": lambda text: schedule(maxDuration=text),
    "retry": lambda text: schedule(retry={"attempts": 3, "delay": text, "longest": text}),
    "every": lambda text: native_trigger(type="EVERY", interval=text),
    "at": lambda text: native_trigger(type="AT", moment=text),
    "cron": lambda text: native_trigger(type="TIME", cronExpression=text),
    "cron of Dapr": lambda text: native_trigger(type="TIME", cronExpression=text, dialect="dapr"),
    "jitter": lambda text: native_trigger(type="EVERY", interval="1h", jitter=text),
    "delay": lambda text: schedule(constraints=[{"type": "DELAY", "delay": text}]),
    "cdap timeout": lambda text: cdap_schedule(timeout=text),
    "pagerduty": lambda text: pagerduty.read_time(text, "$"),
    "time of an event": lambda text: events.decode(
        json.dumps({"id": "e", "source": "s", "time": text, "type": "custom", "data": {"name": "n"}}).encode(),
        fallback_id="f",
        fallback_time=NOW,
    ),
}
NUMBERS: Final[dict[str, Callable[[int], object]]] = {
    "cdap timeoutMillis": lambda number: cdap_schedule(timeoutMillis=number),
    "cdap delay": lambda number: cdap_schedule(constraints=[{"type": "DELAY", "millisAfterTrigger": number}]),
    "cdap last run": lambda number: cdap_schedule(constraints=[{"type": "LAST_RUN", "millisSinceLastRun": number}]),
    "cdap partitions": lambda number: cdap_schedule(
        trigger={"type": "PARTITION", "dataset": {"dataset": "l"}, "numPartitions": number}
    ),
    "rate": lambda number: schedule(constraints=[{"type": "RATE", "limit": 1, "perMillis": number}]),
    "dapr repeats": lambda number: dapr(repeats=number),
    "cdap timestamp": lambda number: events.decode(
        json.dumps(
            {"timestamp": number, "eventType": "PARTITION", "payload": {"datasetId": "a.b", "numPartitions": "1"}}
        ).encode(),
        fallback_id="f",
        fallback_time=NOW,
    ),
}


@pytest.mark.parametrize("dialect", READERS)
@given(TEXTS)
@example("PT999999999999H")
@example("R3/PT99999999999999H")
@example("PT999999999999H999999999999M")
def test_any_text_is_a_value_or_invalid(dialect: str, text: str) -> None:
    with contextlib.suppress(InvalidError):
        READERS[dialect](text)


@pytest.mark.parametrize("dialect", NUMBERS)
@given(INTEGERS)
def test_any_number_is_a_value_or_invalid(dialect: str, number: int) -> None:
    with contextlib.suppress(InvalidError):
        NUMBERS[dialect](number)

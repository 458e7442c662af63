"""Dapr's jobs: times by golden vectors, JSON by protobuf's rules, refusals with code, message and status."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsched.dialects.dapr.codec.job import (
    ConstantFailure,
    DaprData,
    DaprJob,
    DropFailure,
    check_name,
    check_present,
    retry_of,
    timing,
)
from streamsched.dialects.dapr.codec.job_json import (
    body_of,
    duration_to_json,
    job_from_json,
    job_from_object,
    job_to_json,
)
from streamsched.dialects.dapr.codec.moment import go_duration_text
from streamsched.dialects.dapr.codec.refusal import JobFault, JobOperation, JobRefusedError, answer_of, error_json
from streamsched.dialects.dapr.codec.stored import job_from_bytes, job_to_bytes
from streamsched.dialects.dapr.codec.value import VALUE
from streamsched.domain.errors import (
    ConflictError,
    DecodeError,
    InvalidDefinitionError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.tasks.recurrence import first_tick, next_tick
from streamsched.domain.tasks.task_retry import ConstantRetry
from streamsched.wire.queues import RETRY

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "dapr" / "jobs.json").read_text())


def ticks_of(job: DaprJob, now: datetime, strict: bool, most: int = 50) -> list[datetime]:
    """The ticks of a job, by the kernel's rules."""
    plan = timing(job, now, strict=strict)
    if plan.recurrence is None:
        assert plan.due_at is not None
        return [plan.due_at]
    found: list[datetime] = []
    tick = first_tick(plan.recurrence, plan.due_at, now)
    assert plan.empty == (tick is None)
    while tick is not None and len(found) < most:
        found.append(tick)
        tick = next_tick(plan.recurrence, len(found), tick)
    return found


@pytest.mark.parametrize("vector", VECTORS, ids=lambda each: json.dumps(each["job"]))
def test_vectors(vector: dict[str, Any]) -> None:
    strict = vector.get("strict", False)
    now = datetime.fromisoformat(vector["now"]) if "now" in vector else NOW
    job = job_from_object("j", vector["job"], strict=strict)
    if "refused" in vector:
        with pytest.raises(InvalidDefinitionError) as refused:
            timing(job, now, strict=strict)
        assert vector["refused"] in refused.value.reason
        return
    expected = [
        now + float(each) * SECOND if each[0] in "+-" else datetime.fromisoformat(each) for each in vector["ticks"]
    ]
    assert ticks_of(job, now, strict) == expected


def test_json_in_camel_and_snake_case_with_defaults_in_the_answer() -> None:
    camel = {
        "schedule": "@every 1m",
        "repeats": 123,
        "dueTime": "1000s",
        "ttl": "123s",
        "data": {"task": "db-backup", "n": [1, 2.5, None, True]},
        "overwrite": True,
        "failurePolicy": {"constant": {"interval": "3s", "maxRetries": 5}},
        "future": {"is": "ignored"},
    }
    snake = {
        **{name: camel[name] for name in ("schedule", "ttl", "data", "overwrite")},
        "repeats": "123",
        "due_time": "1000s",
        "failure_policy": {"constant": {"interval": "3.000s", "max_retries": 5.0}},
    }
    job, overwrite = job_from_json("test", json.dumps(camel).encode())

    assert overwrite
    assert job_from_json("test", json.dumps(snake).encode()) == (job, True)
    assert job_to_json(job) == {
        "name": "test",
        "schedule": "@every 1m",
        "repeats": 123,
        "dueTime": "1000s",
        "ttl": "123s",
        "data": {"@type": VALUE, "value": camel["data"]},
        "failurePolicy": {"constant": {"interval": "3s", "maxRetries": 5}},
    }
    assert json.loads(body_of(job.data)) == camel["data"]
    plain = job_to_json(job_from_object("j", {"dueTime": "1s", "schedule": None}))
    assert plain == {
        "name": "j",
        "dueTime": "1s",
        "failurePolicy": {"constant": {"interval": "1s", "maxRetries": 3}},
    }
    assert job_to_json(job_from_object("j", {"failurePolicy": {"drop": {}}}))["failurePolicy"] == {"drop": {}}
    assert job_from_object("j", {"period": "R2/1s", "misfire": "one"}, strict=True) == DaprJob(name="j")


@pytest.mark.parametrize("strict", [False, True])
def test_null_is_data_when_it_is_given(strict: bool) -> None:
    job = job_from_object("j", {"dueTime": "1s", "data": None}, strict=strict)

    assert body_of(job.data) == b"null"
    assert job_to_json(job)["data"] == {"@type": VALUE, "value": None}
    assert job_from_bytes("j", job_to_bytes(job)) == job
    assert job_from_object("j", {"dueTime": "1s"}).data is None


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe/Berln", "x" * 200, "UTC\u00e9"])
def test_a_zone_that_is_none_has_the_error_of_dapr(zone: str) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        timing(DaprJob(name="j", schedule=f"TZ={zone} 0 0 4 * * *"), NOW)

    assert refused.value.path == "$.schedule"
    assert refused.value.reason.startswith(f"provided bad location {zone}: unknown time zone {zone}")
    assert ("did you mean 'Europe/Berlin'?" in refused.value.reason) == (zone == "Europe/Berln")


@pytest.mark.parametrize("text", ["R5", "R5/"])
def test_repeats_without_a_period(text: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=r"\$\.schedule: 'R5/?' repeats, but names no period"):
        timing(DaprJob(name="j", schedule=text), NOW)
    for job in (DaprJob(name="j", due_time=text), DaprJob(name="j", schedule="@daily", ttl=text)):
        for strict in (False, True):
            with pytest.raises(InvalidDefinitionError, match="repetitions are not allowed: 'R5"):
                timing(job, NOW, strict=strict)


def test_repeats_up_to_the_largest() -> None:
    for repeats in (1, 2**31 - 1, 2**31, 2**32 - 1):
        plan = timing(DaprJob(name="j", schedule="@every 1s", repeats=repeats), NOW)
        assert plan.recurrence is not None
        assert plan.recurrence.repeats == (repeats if repeats < 2**31 else None)


def test_data_of_another_type_is_given_as_it_is() -> None:
    data = DaprData("dapr.io/schedule/jobpayload", b'  {"a": 1}\n')

    assert body_of(data) == b'{"a": 1}'
    assert body_of(None) == b""
    assert job_to_json(DaprJob(name="j", data=DaprData("x/y", b"\0")))["data"] == {"@type": "x/y", "value": "AA=="}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", JobFault.MALFORMED),
        (b"[]", JobFault.MALFORMED),
        (b'"x"', JobFault.MALFORMED),
        (b"{", JobFault.MALFORMED),
        (b"[" * 1000 + b"]" * 1000, JobFault.MALFORMED),
        (b'{"repeats": -1}', JobFault.MALFORMED),
        (b'{"repeats": 4294967296}', JobFault.MALFORMED),
        (b'{"repeats": 1.5}', JobFault.MALFORMED),
        (b'{"repeats": true}', JobFault.MALFORMED),
        (b'{"schedule": 5}', JobFault.MALFORMED),
        (b'{"overwrite": "yes"}', JobFault.MALFORMED),
        (b'{"dueTime": "1s", "due_time": "1s"}', JobFault.MALFORMED),
        (b'{"failurePolicy": []}', JobFault.MALFORMED),
        (b'{"failurePolicy": {"constant": {"interval": "2m"}}}', JobFault.MALFORMED),
        (b'{"failurePolicy": {"constant": {"interval": "999999999999s"}}}', JobFault.MALFORMED),
        (b'{"failurePolicy": {"constant": {"maxRetries": -1}}}', JobFault.MALFORMED),
        (b'{"failurePolicy": {"constant": {}, "drop": {}}}', JobFault.MALFORMED),
        (b'{"misfire": "often"}', JobFault.MALFORMED),
        (b'{"data": "\\ud800"}', JobFault.MALFORMED),
        (b'{"name": "j", "schedule": "@daily"}', JobFault.NAME_IN_BODY),
    ],
)
def test_a_body_of_another_form_is_refused(body: bytes, fault: JobFault) -> None:
    with pytest.raises(JobRefusedError) as refused:
        job_from_json("j", body)
    assert refused.value.fault is fault
    assert answer_of(JobOperation.SCHEDULE, refused.value, strict=True).status == 400


def test_what_a_sidecar_checks() -> None:
    with pytest.raises(JobRefusedError, match="Name is empty"):
        check_present(DaprJob(name=" \t", schedule="@daily"))
    with pytest.raises(JobRefusedError, match="Schedule is empty"):
        check_present(DaprJob(name="j", ttl="1s"))
    check_present(DaprJob(name="j", due_time="1s"))


@pytest.mark.parametrize("name", ["a", "A b||c:d_e-f", "ünïcode ✓", "...", "x" * 512, "%2F", "'; --"])
def test_names_are_free(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", [".", "..", "a/b", "a\\b", "a#b", "a?b", "a\0b", "a\nb", "\x7f", "\x9f", "x" * 513])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="name"):
        check_name(name)


def test_failure_policies_as_retries() -> None:
    assert retry_of(None) == ConstantRetry(SECOND, 3)
    assert retry_of(ConstantFailure()) == ConstantRetry(timedelta(0), None)
    assert retry_of(DropFailure()).wait("t", 1) is None
    with pytest.raises(InvalidDefinitionError, match=r"\$\.failurePolicy\.constant\.interval"):
        retry_of(ConstantFailure(-SECOND, 1))


@pytest.mark.parametrize(
    ("operation", "error", "strict", "expected"),
    [
        (
            JobOperation.SCHEDULE,
            InvalidDefinitionError("$.schedule", "empty spec string"),
            False,
            (400, "INVALID_ARGUMENT", "failed to schedule job due to: schedule: empty spec string"),
        ),
        (
            JobOperation.SCHEDULE,
            InvalidDefinitionError("$.schedule", "empty spec string"),
            True,
            (500, "INTERNAL", "failed to schedule job due to: empty spec string"),
        ),
        (
            JobOperation.SCHEDULE,
            ConflictError("job already exists: 'j'"),
            True,
            (409, "ALREADY_EXISTS", "failed to schedule job due to: job already exists: 'j'"),
        ),
        (
            JobOperation.GET,
            NotFoundError("job", "j"),
            False,
            (404, "NOT_FOUND", "failed to get job due to: job not found: 'j'"),
        ),
        (
            JobOperation.GET,
            NotFoundError("job", "j"),
            True,
            (500, "INTERNAL", "failed to get job due to: job not found: 'j'"),
        ),
        (
            JobOperation.LIST,
            UnavailableError("no database"),
            False,
            (503, "UNAVAILABLE", "failed to list jobs due to: no database"),
        ),
        (JobOperation.DELETE, StreamschedError("x"), False, (500, "INTERNAL", "failed to delete job due to: x")),
    ],
)
def test_answers(
    operation: JobOperation, error: StreamschedError, strict: bool, expected: tuple[int, str, str]
) -> None:
    answer = answer_of(operation, error, strict=strict)

    assert (answer.status, answer.grpc, answer.message) == expected
    found = error_json(answer, app="a", namespace="n")
    assert found["errorCode"] == operation.value
    assert found["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": operation.value,
            "domain": "dapr.io",
            "metadata": {"appID": "a", "namespace": "n"},
        }
    ]


@pytest.mark.parametrize("content", [b"", b"no line", b"[]\n", b"{", b'{"misfire": "x"}\n', b'{"failure": {}}\n'])
def test_a_task_that_is_no_job_is_refused(content: bytes) -> None:
    with pytest.raises(DecodeError, match="is no job"):
        job_from_bytes("j", content)


@pytest.mark.parametrize(
    "job",
    [
        DaprJob(name="j", due_time="1s"),
        DaprJob(name="j", schedule="@daily", repeats=2, ttl="1h", data=DaprData("", b""), misfire=Misfire.ONE),
        DaprJob(name="j", schedule="@daily", data=DaprData("a/b", b"\n\0\xff\n"), failure_policy=DropFailure()),
        DaprJob(name="j", due_time="1s", failure_policy=ConstantFailure(SECOND / 3, None)),
    ],
)
def test_a_stored_job_is_read_as_it_was(job: DaprJob) -> None:
    assert job_from_bytes("j", job_to_bytes(job)) == job


@pytest.mark.parametrize("retry", [ConstantRetry(SECOND, 3), ConstantRetry(timedelta(0), None)])
def test_a_constant_retry_is_stored_and_read(retry: ConstantRetry) -> None:
    assert RETRY.read(RETRY.write(retry)) == retry


def test_durations_as_text() -> None:
    texts = [duration_to_json(each * SECOND) for each in (0, 1, 1.5, -0.25, 0.000001, 3600)]

    assert texts == ["0s", "1s", "1.500s", "-0.250s", "0.000001s", "3600s"]
    assert [go_duration_text(each * SECOND) for each in (0, 90, 3600, 0.001, 3661.5)] == [
        "0s",
        "1m30s",
        "1h",
        "1ms",
        "1h1m1500ms",
    ]

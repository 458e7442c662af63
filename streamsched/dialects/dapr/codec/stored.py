"""A job as the data of its task: a line of JSON with everything but the data's bytes, then those bytes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import orjson

from streamsched.dialects.dapr.codec.job import ConstantFailure, DaprData, DaprJob, DropFailure, FailurePolicy
from streamsched.domain.errors import DecodeError
from streamsched.domain.schedules.schedule import Misfire

#: The content type of such a task.
CONTENT_TYPE: Final = "application/x-dapr-job"
_MICROSECOND: Final = timedelta(microseconds=1)


def job_to_bytes(job: DaprJob) -> bytes:
    """The data of the job's task."""
    head = {
        "schedule": job.schedule,
        "repeats": job.repeats,
        "dueTime": job.due_time,
        "ttl": job.ttl,
        "type": None if job.data is None else job.data.type_url,
        "failure": None if job.failure_policy is None else _failure(job.failure_policy),
        "misfire": job.misfire,
    }
    line = orjson.dumps({name: value for name, value in head.items() if value is not None})
    return line + b"\n" + (b"" if job.data is None else job.data.value)


def job_from_bytes(name: str, content: bytes) -> DaprJob:
    """The job of a task.

    Raises:
        DecodeError: it is no job, or was stored by a later release.
    """
    line, separator, value = content.partition(b"\n")
    try:
        if not separator:
            raise ValueError("it has one line")
        head: dict[str, Any] = orjson.loads(line)
        failure, misfire, type_url = head.get("failure"), head.get("misfire"), head.get("type")
        return DaprJob(
            name=name,
            schedule=head.get("schedule"),
            repeats=head.get("repeats"),
            due_time=head.get("dueTime"),
            ttl=head.get("ttl"),
            data=None if type_url is None else DaprData(type_url, value),
            failure_policy=None if failure is None else _policy(failure),
            misfire=None if misfire is None else Misfire(misfire),
        )
    except (ValueError, TypeError, AttributeError, KeyError) as exc:
        raise DecodeError("$.data", f"of task '{name}' is no job: {exc}") from exc


def _failure(policy: FailurePolicy) -> dict[str, Any]:
    match policy:
        case DropFailure():
            return {"drop": True}
        case ConstantFailure(interval=interval, max_retries=retries):
            return {"interval": interval // _MICROSECOND, "retries": retries}


def _policy(value: dict[str, Any]) -> FailurePolicy:
    if value.get("drop"):
        return DropFailure()
    return ConstantFailure(value["interval"] * _MICROSECOND, value["retries"])

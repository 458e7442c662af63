"""A job as the JSON of Dapr's HTTP API, by the rules of protobuf's JSON.

    {"schedule": "@every 1m", "repeats": 3, "dueTime": "10s", "ttl": "1h", "data": any JSON, "overwrite": true,
     "failurePolicy": {"constant": {"interval": "3s", "maxRetries": 5}} | {"drop": {}}}

Names in snake case are read, too; unknown members are ignored, and null is absent, except as data: a JSON value that
an app gets as `null`. Beyond Dapr's, unless strict:
`"misfire": "all" | "one" | "skip"`, and a reminder's `period` in place of the schedule.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NoReturn

import orjson

from streamsched.codec.json.reading import format_value
from streamsched.codec.json.scalar import parse
from streamsched.dialects.dapr.codec.job import (
    DEFAULT_FAILURE,
    ConstantFailure,
    DaprData,
    DaprJob,
    DropFailure,
    FailurePolicy,
)
from streamsched.dialects.dapr.codec.refusal import JobFault, JobRefusedError
from streamsched.dialects.dapr.codec.value import VALUE, value_from_bytes, value_to_bytes
from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.schedules.schedule import Misfire

_DURATION: Final = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s", re.ASCII)
#: The most seconds of a protobuf duration.
MOST_SECONDS: Final = 315_576_000_000
_UINT32: Final = 2**32 - 1


def job_from_json(name: str, body: bytes, *, strict: bool = False) -> tuple[DaprJob, bool]:
    """The job in the body of a request for `name`, and whether it overwrites.

    Raises:
        JobRefusedError: the body has another form, or names the job.
    """
    try:
        value: Json = parse(body)
    except InvalidError as exc:
        raise JobRefusedError(JobFault.MALFORMED, exc.reason, exc.path) from exc
    if not isinstance(value, Mapping):
        _fail("$", f"must be an object but is {format_value(value)}")
    if _member(value, "$", "name") not in (None, ""):
        raise JobRefusedError(JobFault.NAME_IN_BODY, path="$.name")
    return job_from_object(name, value, strict=strict), _boolean(value, "overwrite")


def job_from_object(name: str, value: Mapping[str, Json], *, strict: bool = False) -> DaprJob:
    """The job in a JSON object.

    Raises:
        JobRefusedError: a member has another form.
    """
    schedule = _text(value, "schedule")
    misfire = None
    if not strict:
        schedule = schedule or _text(value, "period")
        asked = _text(value, "misfire")
        if asked is not None and asked not in [each.value for each in Misfire]:
            _fail("$.misfire", f"must be one of {', '.join(Misfire)} but is {format_value(asked)}")
        misfire = None if asked is None else Misfire(asked)
    return DaprJob(
        name=name,
        schedule=schedule,
        repeats=_uint32(value, "$", "repeats"),
        due_time=_text(value, "dueTime", "due_time"),
        ttl=_text(value, "ttl"),
        data=DaprData(VALUE, _value(value["data"])) if "data" in value else None,
        failure_policy=_policy(_member(value, "$", "failurePolicy", "failure_policy")),
        misfire=misfire,
    )


def job_to_json(job: DaprJob) -> dict[str, Any]:
    """The JSON of an answer: times as they were given, with the failure policy that applies."""
    members: dict[str, Any] = {
        "name": job.name,
        "schedule": job.schedule,
        "repeats": job.repeats,
        "dueTime": job.due_time,
        "ttl": job.ttl,
        "data": None if job.data is None else data_to_json(job.data),
        "failurePolicy": policy_to_json(job.failure_policy or DEFAULT_FAILURE),
    }
    return {name: value for name, value in members.items() if value is not None}


def data_to_json(data: DaprData) -> dict[str, Any]:
    """The data with its type; of another type than a JSON value as base64."""
    if data.type_url == VALUE:
        return {"@type": VALUE, "value": value_from_bytes(data.value)}
    return {"@type": data.type_url, "value": b64encode(data.value).decode()}


def body_of(data: DaprData | None) -> bytes:
    """What an HTTP app gets: the JSON of the data, or trimmed bytes; nothing without data."""
    if data is None:
        return b""
    if data.type_url == VALUE:
        return orjson.dumps(value_from_bytes(data.value))
    return data.value.strip()


def policy_to_json(policy: FailurePolicy) -> dict[str, Any]:
    """The JSON of a failure policy."""
    match policy:
        case DropFailure():
            return {"drop": {}}
        case ConstantFailure(interval=interval, max_retries=retries):
            constant: dict[str, Any] = {"interval": duration_to_json(interval)}
            return {"constant": constant if retries is None else {**constant, "maxRetries": retries}}


def duration_to_json(duration: timedelta) -> str:
    """A protobuf duration: seconds, with 0, 3 or 6 decimals.

    >>> duration_to_json(timedelta(seconds=1.5))
    '1.500s'
    """
    sign = "-" if duration < timedelta(0) else ""
    seconds, micro = divmod(abs(duration) // timedelta(microseconds=1), 1_000_000)
    decimals = f".{micro // 1000:03}" if micro and not micro % 1000 else f".{micro:06}" if micro else ""
    return f"{sign}{seconds}{decimals}s"


def _policy(value: Json) -> FailurePolicy | None:
    path = "$.failurePolicy"
    if value is None:
        return None
    policy = _object(value, path)
    drop, constant = policy.get("drop"), policy.get("constant")
    if drop is not None and constant is not None:
        _fail(path, "has both drop and constant")
    if drop is not None:
        _object(drop, f"{path}.drop")
        return DropFailure()
    if constant is None:
        return None
    path = f"{path}.constant"
    members = _object(constant, path)
    interval = _member(members, path, "interval")
    return ConstantFailure(
        timedelta(0) if interval is None else _duration(interval, f"{path}.interval"),
        _uint32(members, path, "maxRetries", "max_retries"),
    )


def _duration(value: object, path: str) -> timedelta:
    matched = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if matched is None or int(matched[2]) > MOST_SECONDS:
        _fail(path, f"must be seconds, as in '1.5s', but is {format_value(value)}")
    length = timedelta(seconds=int(matched[2]), microseconds=int((matched[3] or "").ljust(9, "0")) // 1000)
    return -length if matched[1] else length


def _value(data: Json) -> bytes:
    try:
        return value_to_bytes(data)
    except UnicodeEncodeError as exc:
        raise JobRefusedError(JobFault.MALFORMED, "has a lone surrogate", "$.data") from exc


def _member(value: Mapping[str, Json], path: str, name: str, other: str = "") -> Json:
    if other and name in value and other in value:
        _fail(member_path(path, other), f"is the same as {name}")
    return value.get(name) if name in value or not other else value.get(other)


def _text(value: Mapping[str, Json], name: str, other: str = "") -> str | None:
    found = _member(value, "$", name, other)
    if found is not None and not isinstance(found, str):
        _fail(f"$.{name}", f"must be a text but is {format_value(found)}")
    return found


def _boolean(value: Mapping[str, Json], name: str) -> bool:
    found = _member(value, "$", name)
    if found is not None and not isinstance(found, bool):
        _fail(f"$.{name}", f"must be true or false but is {format_value(found)}")
    return bool(found)


def _uint32(value: Mapping[str, Json], path: str, name: str, other: str = "") -> int | None:
    """A number, or a text of one, as protobuf reads them."""
    found = _member(value, path, name, other)
    if found is None:
        return None
    if isinstance(found, str) and re.fullmatch(r"\d{1,10}", found, re.ASCII):
        found = int(found)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _UINT32:
        _fail(member_path(path, name), f"must be a whole number from 0 to {_UINT32} but is {format_value(found)}")
    return found


def _object(value: Json, path: str) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        _fail(path, f"must be an object but is {format_value(value)}")
    return value


def _fail(path: str, reason: str) -> NoReturn:
    raise JobRefusedError(JobFault.MALFORMED, f"{path}: {reason}", path)

"""Tasks in the JSON of PagerDuty's admin interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import orjson

from streamsched.dialects.pagerduty.codec.task import TaskKey, time_text
from streamsched.domain.tasks.identity import TaskLane, partition_of
from streamsched.domain.tasks.task import TaskState
from streamsched.store.tasks.registry import TaskRecord

_RESULTS: Final[Mapping[str, str]] = {
    "succeeded": "Success",
    "failed": "Failure",
    "lost": "Incomplete",
    "interrupted": "Incomplete",
}


def status_of(state: TaskState) -> str:
    """The status of a task there: Incomplete, Success, Failure or Dropped."""
    match state:
        case TaskState.WAITING | TaskState.IN_FLIGHT | TaskState.RETRYING:
            return "Incomplete"
        case TaskState.SUCCEEDED:
            return "Success"
        case TaskState.FAILED | TaskState.EXPIRED:
            return "Failure"
        case TaskState.CANCELLED | TaskState.DROPPED:
            return "Dropped"
        case _:
            assert_never(state)


def task_view(found: TaskRecord, data: bytes | None, partitions: int) -> dict[str, Any]:
    """A task; `data` None: it has ended, and its data was not kept. `partitions`: how many lanes have."""
    attempts = [_attempt(each) for each in found.attempts]
    return {
        "key": str(TaskKey(found.due_at, found.lane, found.key)),
        "enqueueingTime": time_text(found.created_at),
        "partitionId": partition_of(TaskLane(found.queue, found.lane).id, partitions),
        "data": None if data is None else _data(data),
        "numberOfAttempts": max((each["attemptNumber"] for each in attempts), default=0),
        "status": status_of(found.state),
        "details": {"attempts": attempts},
    }


def _attempt(each: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt. Receivers report a reason, but neither class nor stack trace."""
    failed = each["result"] == "failed"
    return {
        "attemptNumber": each["attempt"],
        "startedAt": each["startedAt"],
        "finishedAt": each["endedAt"],
        "taskResult": _RESULTS[each["result"]],
        "taskResultUpdatedAt": each["endedAt"],
        "exceptionClass": None,
        "exceptionMessage": each["reason"] if failed else None,
        "exceptionStackTrace": None,
    }


def _data(data: bytes) -> Any:
    """Data that another client wrote may be any bytes."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode(errors="replace")

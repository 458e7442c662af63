"""What workers and owners of tasks send each other: lines of JSON, and the body of a report.

owner → worker   {"stream": id, "reportEvery": seconds}                 first
                 {"task": {"delivery": n, "id", "queue", "lane", "key", "attempt", "due", "contentType", "base64"}}
                 {"stop": n}                                            this delivery need not go on
                 {}                                                     the connection lives
worker → owner   {"queues": [name, …], "credit": n}                     opens a stream
                 {"done": [n, …], "failed": [{"delivery": n, "reason"}], "heartbeats": [n, …], "credit": n}
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import parse
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import check_queue_name
from streamsched.domain.tasks.attempt import StartedTask
from streamsched.domain.tasks.queue import MOST_QUEUES

#: The most tasks that a worker takes at a time.
MOST_CREDIT: Final = 1000
#: The most deliveries in one list of a report.
MOST_REPORTED: Final = 2000


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A worker opens a stream of the tasks of these queues."""

    queues: tuple[str, ...]
    credit: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker has done. `credit` None: as before."""

    done: tuple[int, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    heartbeats: tuple[int, ...] = ()
    credit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredTask:
    """A task as a worker receives it.

    Attributes:
        delivery: names this delivery in reports.
        attempt: from 1.
        due_at: planned time (UTC).
    """

    delivery: int
    id: str
    queue: str
    lane: str
    key: str
    attempt: int
    due_at: datetime
    content_type: str
    data: bytes


def task_line(delivery: int, task: StartedTask) -> bytes:
    """The line of a task."""
    content = {
        "delivery": delivery,
        "id": task.id,
        "queue": task.queue,
        "lane": task.lane,
        "key": task.key,
        "attempt": task.attempt,
        "due": task.planned_at.isoformat(),
        "contentType": task.content_type,
        "base64": b64encode(task.data).decode(),
    }
    return line({"task": content})


def read_task(value: object) -> DeliveredTask:
    """The inverse of `task_line`, of member `task`.

    Raises:
        DecodeError: with the path of the field.
    """
    fields = Fields(value, "$.task")
    return DeliveredTask(
        delivery=fields.integer("delivery"),
        id=fields.text("id"),
        queue=fields.text("queue"),
        lane=fields.text("lane"),
        key=fields.text("key"),
        attempt=fields.integer("attempt"),
        due_at=fields.instant("due"),
        content_type=fields.text("contentType"),
        data=b64decode(fields.text("base64")),
    )


def line(content: dict[str, Any]) -> bytes:
    """A line of the stream."""
    return orjson.dumps(content) + b"\n"


def read_request(body: bytes) -> StreamRequest:
    """What a worker asks for when it connects.

    Raises:
        DecodeError, InvalidError: with the path of the field.
    """
    fields = Fields(parse(body or b"{}"))
    queues = fields.text_list("queues")
    if not 0 < len(queues) <= MOST_QUEUES:
        fields.fail("queues", f"must be 1 to {MOST_QUEUES} names")
    for index, queue in enumerate(queues):
        check_queue_name(queue, f"$.queues[{index}]")
    credit = _credit(fields, fields.integer("credit", minimum=0))
    fields.check_all_read()
    return StreamRequest(queues, credit)


def read_report(body: bytes) -> WorkerReport:
    """What a worker reports of its tasks.

    Raises:
        DecodeError: with the path of the field.
    """
    fields = Fields(parse(body or b"{}"))
    failed: list[tuple[int, str]] = []
    for value, path in _read_list(fields, "failed"):
        each = Fields(value, path)
        failed.append((each.integer("delivery"), each.text("reason")))
        each.check_all_read()
    credit = fields.optional_integer("credit", minimum=0)
    report = WorkerReport(
        _numbers(fields, "done"),
        tuple(failed),
        _numbers(fields, "heartbeats"),
        None if credit is None else _credit(fields, credit),
    )
    fields.check_all_read()
    return report


def report_to_json(report: WorkerReport) -> dict[str, Any]:
    """The body of a report."""
    return {
        "done": list(report.done),
        "failed": [{"delivery": delivery, "reason": reason} for delivery, reason in report.failed],
        "heartbeats": list(report.heartbeats),
        "credit": report.credit,
    }


def _numbers(fields: Fields, name: str) -> tuple[int, ...]:
    found = _read_list(fields, name)
    for value, path in found:
        if type(value) is not int:
            raise DecodeError(path, "must be the number of a delivery")
    return tuple(value for value, _ in found)


def _read_list(fields: Fields, name: str) -> list[tuple[Any, str]]:
    found = fields.optional_list(name)
    if len(found) > MOST_REPORTED:
        fields.fail(name, f"must have at most {MOST_REPORTED} elements")
    return found


def _credit(fields: Fields, credit: int) -> int:
    if credit > MOST_CREDIT:
        fields.fail("credit", f"must be at most {MOST_CREDIT}")
    return credit

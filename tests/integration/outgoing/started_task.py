"""A task as its owner hands it to a receiver."""

from __future__ import annotations

from datetime import UTC, datetime

from streamsched.domain.tasks.attempt import StartedTask

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def started_task(queue: str, data: bytes = b"{}") -> StartedTask:
    """The first attempt of a task of this queue."""
    return StartedTask(
        id="t",
        queue=queue,
        lane="l",
        lane_id="0" * 32,
        partition=0,
        key="k",
        generation=1,
        due_at=NOON,
        planned_at=NOON,
        fired=0,
        failures=0,
        started_at=NOON,
        data=data,
        content_type="application/json",
    )

"""JSON of queues, lanes and tasks in responses."""

from __future__ import annotations

from typing import Any

from streamsched.domain.tasks.why import TaskReason
from streamsched.store.tasks.queues import QueueRecord
from streamsched.store.tasks.registration import RegisteredTask
from streamsched.store.tasks.registry import LaneRecord, TaskRecord
from streamsched.wire.queues import QUEUE


def queue_view(found: QueueRecord) -> dict[str, Any]:
    """A queue with its policy and what is in it."""
    return QUEUE.answer_of(found.queue.policy, found.queue, found)


def registered_view(found: RegisteredTask) -> dict[str, Any]:
    """What became of a registration."""
    return {"id": found.task, "verdict": found.verdict, "generation": found.generation}


def task_view(found: TaskRecord) -> dict[str, Any]:
    """A task, or the end of one."""
    return {
        "id": found.id,
        "queue": found.queue,
        "lane": found.lane,
        "key": found.key,
        "state": found.state,
        "due": found.due_at,
        "nextAt": found.next_at,
        "generation": found.generation,
        "fired": found.fired,
        "failures": found.failures,
        "losses": found.losses,
        "interruptions": found.interruptions,
        "createdAt": found.created_at,
        "endedAt": found.ended_at,
        "final": found.final,
        "reason": found.reason,
        "recurrence": (found.options or {}).get("recurrence"),
        "retry": (found.options or {}).get("retry"),
        "bytes": found.bytes,
        "attempts": list(found.attempts),
    }


def reason_view(reason: TaskReason) -> dict[str, Any]:
    """A reason for waiting. `until`: the earliest time it can change."""
    return {"text": reason.text, "until": reason.until}


def lane_view(found: LaneRecord) -> dict[str, Any]:
    """A lane with its head."""
    head = found.head
    return {
        "queue": found.queue,
        "name": found.name,
        "partition": found.partition,
        "tasks": found.waiting,
        "head": None
        if head is None
        else {
            "id": head.task,
            "key": head.key,
            "state": head.state,
            "nextAt": head.next_at,
            "failures": head.failures,
            "losses": head.losses,
            "error": head.error,
        },
        "reasons": [reason_view(each) for each in found.reasons],
    }

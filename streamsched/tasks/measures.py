"""What an owner of lanes counts of its deliveries: see `telemetry.metrics`."""

from __future__ import annotations

from typing import assert_never

import structlog

from streamsched.domain.tasks.attempt import (
    Acknowledged,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
    TaskEnds,
    TaskTicks,
    WorkerLost,
)
from streamsched.domain.tasks.task import TaskState
from streamsched.store.tasks.delivery import EndedAttempt
from streamsched.telemetry.metrics import Metrics

log = structlog.get_logger()


def measure_start(metrics: Metrics, task: StartedTask) -> None:
    """Counts the lateness of a first attempt."""
    if task.attempt == 1:
        metrics.observe("queue_start_late_seconds", max(0.0, (task.started_at - task.due_at).total_seconds()))


def measure_skipped(metrics: Metrics, task: StartedTask, ticks: int) -> None:
    """Counts and logs missed ticks that are skipped."""
    metrics.add("queue_ticks_skipped_total", ticks, queue=task.queue)
    log.warning(
        "tasks.ticks_skipped", task=task.id, queue=task.queue, ticks=ticks, planned_at=task.planned_at.isoformat()
    )


def measure_end(metrics: Metrics, ended: EndedAttempt) -> None:
    """Counts the end of an attempt, and logs the end of a task whose attempts are used up."""
    queue = ended.task.queue
    metrics.add("queue_attempts_total", queue=queue, result=_result(ended.end))
    match ended.after:
        case TaskEnds(state=TaskState.FAILED, reason=reason) | TaskTicks(state=TaskState.FAILED, reason=reason):
            metrics.add("queue_exhausted_total", queue=queue)
            log.warning("tasks.exhausted", task=ended.task.id, queue=queue, reason=reason)
        case _:
            pass


def _result(end: AttemptEnd) -> str:
    match end:
        case Acknowledged(handled=handled):
            return "acknowledged" if handled else "unhandled"
        case AttemptFailed():
            return "failed"
        case WorkerLost():
            return "lost"
        case Interrupted():
            return "interrupted"
        case _:
            assert_never(end)

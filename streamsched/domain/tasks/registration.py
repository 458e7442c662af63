"""What a registration becomes: a new task, the replacement of one, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.limits import add_duration
from streamsched.domain.tasks.queue import QueuePolicy
from streamsched.domain.tasks.recurrence import first_tick
from streamsched.domain.tasks.task import TASK_STATES, OnExisting, TaskFact, TaskRequest, TaskState
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.instants import clock


class RegistrationVerdict(StrEnum):
    """MADE and REPLACED are stored; STARTED, ENDED and EXISTS are not, because of an earlier task."""

    MADE = "made"
    REPLACED = "replaced"
    STARTED = "started"
    ENDED = "ended"
    EXISTS = "exists"

    @property
    def is_stored(self) -> bool:
        return self in (RegistrationVerdict.MADE, RegistrationVerdict.REPLACED)


@dataclass(frozen=True, slots=True)
class KnownTask:
    """What is known of earlier tasks of the same identity.

    Attributes:
        state: of the live one; None without one.
        ended_at: the newest end of one (UTC), None without one.
    """

    state: TaskState | None = None
    ended_at: datetime | None = None


def first_due_at(policy: QueuePolicy, request: TaskRequest, now: datetime) -> datetime:
    """When the task is due first (UTC).

    Raises:
        InvalidError: it was due longer ago than the grace of the queue.
        InvalidDefinitionError: its recurrence has no tick.
    """
    due_at = request.due_at
    if due_at is not None and policy.grace is not None and due_at < add_duration(now, -policy.grace):
        raise InvalidError(
            "$.due", f"is {clock(due_at)}, too far in the past: the queue accepts {duration_text(policy.grace)}"
        )
    if request.recurrence is None:
        return due_at or now
    first = first_tick(request.recurrence, due_at, now)
    if first is None:
        raise InvalidDefinitionError("$.recurrence", "has no tick: it ends before the first one")
    return first


def judge_registration(
    policy: QueuePolicy, request: TaskRequest, known: KnownTask, now: datetime
) -> RegistrationVerdict:
    """Decides about a registration. Pure; a repeat of the same registration never makes a second task."""
    match request.on_existing:
        case OnExisting.KEEP_STARTED:
            if known.state is None:
                ended = known.ended_at is not None and known.ended_at > add_duration(now, -policy.dedupe)
                return RegistrationVerdict.ENDED if ended else RegistrationVerdict.MADE
            if known.state is not TaskState.WAITING:
                return RegistrationVerdict.STARTED
        case OnExisting.REFUSE:
            return RegistrationVerdict.MADE if known.state is None else RegistrationVerdict.EXISTS
        case OnExisting.OVERWRITE:
            if known.state is None:
                return RegistrationVerdict.MADE
        case _:
            assert_never(request.on_existing)
    TASK_STATES.advance(known.state, TaskFact.REPLACED)
    return RegistrationVerdict.REPLACED

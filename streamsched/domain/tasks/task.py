"""A task: an item with a due time in a lane of a queue, delivered at least once, never early, until it is acknowledged
or its attempts are used up. Its state machine is `TASK_STATES`.

In a lane at most one task is in flight. The others wait: a started task first (it is in flight or waits for its retry,
and there is at most one), then by due time and key. The first is the head of the lane, which alone may be started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import check_instant
from streamsched.domain.state_machine import StateMachine
from streamsched.domain.tasks.recurrence import Recurrence
from streamsched.domain.tasks.task_retry import TaskRetry

#: The most bytes of a task's data.
MOST_DATA: Final = 256 * 1024
_LONGEST_TYPE: Final = 255


class TaskState(StrEnum):
    """Where a task is. Only the first task of a lane is started; the others wait behind it."""

    #: Not due, or behind others in its lane. It may be replaced or cancelled.
    WAITING = "WAITING"
    #: Being delivered: its target has it and has not answered.
    IN_FLIGHT = "IN_FLIGHT"
    #: An attempt failed, or was interrupted. It holds its lane until the next one.
    RETRYING = "RETRYING"
    #: Its target has acknowledged it, of a recurring one the last tick.
    SUCCEEDED = "SUCCEEDED"
    #: Its attempts are used up. The lane goes on with the next task.
    FAILED = "FAILED"
    #: A recurring task that has no tick left, by its end or its time to live.
    EXPIRED = "EXPIRED"
    #: Withdrawn before its first attempt.
    CANCELLED = "CANCELLED"
    #: Given up by a person after it was started: what it was to do may have been done.
    DROPPED = "DROPPED"

    @property
    def is_terminal(self) -> bool:
        return self in TASK_STATES.ends


class TaskFact(StrEnum):
    """The events of a task's state machine."""

    STARTED = "delivery started"
    SUCCEEDED = "acknowledged"
    TICKED = "its next tick follows"
    FAILED = "attempt failed"
    INTERRUPTED = "its owner ended, or its worker was lost"
    EXHAUSTED = "failed for the last time"
    EXPIRED = "no tick is left"
    REPLACED = "registered again"
    CANCELLED = "cancelled by hand"
    DROPPED = "dropped by hand"


TASK_STATES: Final = StateMachine(
    "task",
    {
        (TaskState.WAITING, TaskFact.STARTED): TaskState.IN_FLIGHT,
        (TaskState.WAITING, TaskFact.REPLACED): TaskState.WAITING,
        (TaskState.WAITING, TaskFact.CANCELLED): TaskState.CANCELLED,
        (TaskState.WAITING, TaskFact.DROPPED): TaskState.DROPPED,
        (TaskState.IN_FLIGHT, TaskFact.SUCCEEDED): TaskState.SUCCEEDED,
        (TaskState.IN_FLIGHT, TaskFact.TICKED): TaskState.WAITING,
        (TaskState.IN_FLIGHT, TaskFact.FAILED): TaskState.RETRYING,
        (TaskState.IN_FLIGHT, TaskFact.INTERRUPTED): TaskState.RETRYING,
        (TaskState.IN_FLIGHT, TaskFact.EXHAUSTED): TaskState.FAILED,
        (TaskState.IN_FLIGHT, TaskFact.EXPIRED): TaskState.EXPIRED,
        (TaskState.IN_FLIGHT, TaskFact.REPLACED): TaskState.WAITING,
        (TaskState.IN_FLIGHT, TaskFact.DROPPED): TaskState.DROPPED,
        (TaskState.RETRYING, TaskFact.STARTED): TaskState.IN_FLIGHT,
        (TaskState.RETRYING, TaskFact.REPLACED): TaskState.WAITING,
        (TaskState.RETRYING, TaskFact.DROPPED): TaskState.DROPPED,
    },
    frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.EXPIRED, TaskState.CANCELLED, TaskState.DROPPED}),
)


class OnExisting(StrEnum):
    """What a registration does about an earlier task of the same identity.

    KEEP_STARTED replaces one that was not started, and does nothing about one that was, or that ended within the dedupe
    horizon. REFUSE stores nothing while there is a live one. OVERWRITE replaces a live one in any state.
    """

    KEEP_STARTED = "keep_started"
    REFUSE = "refuse"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """A registration.

    Attributes:
        lane: name of the lane; empty: a lane of its own, named as its key.
        due_at: earliest start (UTC); None: now, or the first tick of its recurrence.
        data: what is delivered, as it is.
        content_type: media type of the data, for an HTTP target.
        recurrence: None: it is delivered once.
        retry: None: that of the queue.
        enqueued_at: when its producer wrote it (UTC); None: when it is stored.

    Raises:
        InvalidError: the data is too large, the content type or the due time is invalid.
    """

    key: str
    lane: str = ""
    due_at: datetime | None = None
    data: bytes = b""
    content_type: str = ""
    recurrence: Recurrence | None = None
    retry: TaskRetry | None = None
    on_existing: OnExisting = OnExisting.KEEP_STARTED
    enqueued_at: datetime | None = None

    def __post_init__(self) -> None:
        if len(self.data) > MOST_DATA:
            raise InvalidError("$.data", f"must have at most {MOST_DATA} bytes but has {len(self.data)}")
        kind = self.content_type
        if len(kind) > _LONGEST_TYPE or not kind.isascii() or not all(each.isprintable() for each in kind):
            raise InvalidError(
                "$.contentType", f"must be at most {_LONGEST_TYPE} printable ASCII characters, as in application/json"
            )
        if self.due_at is not None:
            check_instant(self.due_at, "$.due")

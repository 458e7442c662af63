"""The event of the end of a task, for queues that announce ends."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from streamsched.codec.tasks.event import end_event
from streamsched.domain.tasks.attempt import TaskEnds, TaskRetries, TaskTicks
from streamsched.domain.tasks.queue import QueuePolicy
from streamsched.domain.tasks.task import TaskState
from streamsched.store.tasks.delivery import EndedAttempt, SkippedTicks


def add_announcement(ended: EndedAttempt, policy: QueuePolicy) -> EndedAttempt:
    """With the event of its end, if the task or its tick has ended and its queue announces ends."""
    if policy.ends is None or ended.event is not None:
        return ended
    match ended.after:
        case TaskEnds(state=state, reason=reason) | TaskTicks(state=state, reason=reason):
            pass
        case SkippedTicks(planned_at=None):
            state, reason = TaskState.EXPIRED, "no tick is left"
        case TaskRetries() | SkippedTicks():
            return ended
        case _:
            assert_never(ended.after)
    task = ended.task
    own = {"task": task.id, "queue": task.queue, "lane": task.lane, "key": task.key}
    event = end_event(policy.ends, own, token=task.token, data=task.data, state=state, reason=reason, at=ended.end.at)
    return replace(ended, event=event)

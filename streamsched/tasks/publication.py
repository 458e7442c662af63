"""The events of tasks: of a task of a publishing queue, and of the end of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, assert_never

import orjson

from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.domain.tasks.attempt import StartedTask, TaskEnds, TaskRetries, TaskTicks
from streamsched.domain.tasks.queue import QueuePolicy, TopicTarget
from streamsched.domain.tasks.task import TaskState
from streamsched.ports.tasks.delivery import EndedAttempt, SkippedTicks

SOURCE: Final = "streamsched/tasks"


def event_of(task: StartedTask, target: TopicTarget) -> Event:
    """The event of a delivery; its id is the same for all attempts. The members of the data, a JSON object, are its
    attributes; values that are no texts are written as JSON. Its time is the planned time.

    Raises:
        DecodeError: the data is no JSON object.
    """
    attributes = _members(task.data)
    own = {"task": task.id, "queue": task.queue, "lane": task.lane, "key": task.key}
    return Event(task.token, SOURCE, task.planned_at, CustomHappened(target.event, {**attributes, **own}))


def announced(ended: EndedAttempt, policy: QueuePolicy) -> EndedAttempt:
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


def end_event(
    name: EventName, names: Mapping[str, str], *, token: str, data: bytes, state: TaskState, reason: str, at: datetime
) -> Event:
    """The event of the end of a task at `at` (UTC); its id is the same for all ends of a delivery (`token`), so one
    counts. Its attributes are the members of the data if that is a JSON object, the `names` of the task, `state` and
    `reason`.
    """
    try:
        attributes = _members(data)
    except DecodeError:
        attributes = {}
    own = {**names, "state": state.value, "reason": reason}
    return Event(f"{token}:end", SOURCE, at, CustomHappened(name, {**attributes, **own}))


def _members(data: bytes) -> dict[str, str]:
    """Raises:
    DecodeError: the data is no JSON object.
    """
    content = loads(data or b"{}", "$.data")
    if not isinstance(content, dict):
        raise DecodeError("$.data", "must be a JSON object: its members become attributes of the event")
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in content.items()}

"""The events of tasks: of a task of a publishing queue, and of the end of a task."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import orjson

from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.json_value import Json
from streamsched.domain.names import EventName
from streamsched.domain.tasks.attempt import StartedTask
from streamsched.domain.tasks.queue import TopicTarget
from streamsched.domain.tasks.task import TaskState

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
    content: Json = loads(data or b"{}", "$.data")
    if not isinstance(content, dict):
        raise DecodeError("$.data", "must be a JSON object: its members become attributes of the event")
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in content.items()}

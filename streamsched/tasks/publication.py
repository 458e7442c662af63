"""The event that a task of a publishing queue becomes."""

from __future__ import annotations

from typing import Final

import orjson

from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.tasks.attempt import StartedTask
from streamsched.domain.tasks.queue import TopicTarget

SOURCE: Final = "streamsched/tasks"


def event_of(task: StartedTask, target: TopicTarget) -> Event:
    """The event of a delivery; its id is the same for all attempts. The members of the data, a JSON object, are its
    attributes; values that are no texts are written as JSON. Its time is the planned time.

    Raises:
        DecodeError: the data is no JSON object.
    """
    content = loads(task.data or b"{}", "$.data")
    if not isinstance(content, dict):
        raise DecodeError("$.data", "must be a JSON object: its members become attributes of the event")
    attributes = {
        name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in content.items()
    }
    own = {"task": task.id, "queue": task.queue, "lane": task.lane, "key": task.key}
    return Event(task.token, SOURCE, task.planned_at, CustomHappened(target.event, {**attributes, **own}))

"""Programs that make tasks of queues."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import orjson

from streamsched.codec.json.reading import anchored, below
from streamsched.define.units import Duration, duration, texts
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import EnqueueJob, Executable


class TaskPrograms:
    """The part of `App` that makes tasks."""

    def enqueue(
        self,
        name: str,
        queue: str,
        *,
        lane: str = "",
        key: str = "",
        after: Duration | None = None,
        data: Any = None,
        defaults: Mapping[str, str] | None = None,
    ) -> ProgramRef:
        """Adds a program that makes one task of a queue for each completed run, without a process.

        Args:
            name: unique among the app's programs.
            queue: name of the queue, made by `streamsched queue set`.
            lane: tasks of one lane go one after another; `{name}` is replaced by the run's argument of that name, as
                in `"{key.customer}"`. Default: a lane of its own.
            key: names the task in its lane. Default: the job, so each job makes one task.
            after: the task is due so long after the run. Default: at once.
            data: what is delivered: a text, or anything that JSON can hold; `{name}` is replaced in its texts. Default:
                the run as JSON, as in the body of `http`.
            defaults: arguments of every run. Preferences and schedules can override them.
        """
        path = below("$.programs", name)
        with anchored(path):
            due_after = timedelta(0) if after is None else duration(after, "$.after")
            job = EnqueueJob(queue, lane, key, due_after, _text(data))
        return self._add(name, job, texts(defaults, f"{path}.defaults"))

    def _add(self, name: str, executable: Executable, defaults: dict[str, str]) -> ProgramRef:
        raise NotImplementedError


def _text(data: Any) -> str | None:
    if data is None or isinstance(data, str):
        return data
    try:
        return orjson.dumps(data).decode()
    except TypeError as exc:
        raise InvalidDefinitionError("$.data", f"cannot be written as JSON: {exc}") from exc

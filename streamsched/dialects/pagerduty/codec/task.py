"""A task of PagerDuty's scheduler, as its clients write it to a topic, and the text of its key.

    {"orderingId": "incident-1", "scheduledTime": "2016-02-09T01:41:12.959Z", "uniquenessKey": "notify-1",
     "taskData": {"a": "b"}, "version": 1}

    TaskKey(2016-02-09T01:41:12.959Z,incident-1,notify-1)

Times have milliseconds. Other members of the object are ignored, as its reader does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from streamsched.codec.json.reading import Fields, format_value, instant, prefix_errors
from streamsched.codec.json.scalar import parse
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.limits import add_duration, check_instant
from streamsched.domain.tasks.identity import TaskLane, check_task_key
from streamsched.domain.tasks.queue import QueuePolicy, TaskIdentity, WorkerTarget
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.tasks.task_retry import BackoffRetry

#: The name of its topic and its consumer group, and of the queue.
SCHEDULER: Final = "scheduler"
VERSION: Final = 1
#: How long ago a task may be due when it is enqueued.
GRACE: Final = timedelta(seconds=10)
#: The message of its clients for a task that was due longer ago.
TOO_LATE: Final = "Attempting to enqueue too far in the past."
#: Its policy: 100 retries with a backoff of 20 s to 120 s, half of it drawn, and a dedupe horizon of 14 days.
POLICY: Final = QueuePolicy(
    target=WorkerTarget(),
    retry=BackoffRetry(100, timedelta(seconds=20), timedelta(seconds=120), 0.5),
    grace=GRACE,
    dedupe=timedelta(days=14),
    identity=TaskIdentity.KEY_AND_DUE,
)

_KEY: Final = re.compile(r"TaskKey\(([^,]*),(.*)\)", re.DOTALL)
#: Most readings of a text whose ids have commas.
_MOST_READINGS: Final = 32
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class TaskKey:
    """The identity of a task; keys have the order in which tasks of one ordering id are delivered.

    >>> key = TaskKey.parse("TaskKey(2016-02-09T01:41:12Z,incident-1,notify-1)")
    >>> str(key)
    'TaskKey(2016-02-09T01:41:12.000Z,incident-1,notify-1)'
    """

    scheduled_time: datetime
    ordering_id: str
    uniqueness_key: str

    def __str__(self) -> str:
        return f"TaskKey({time_text(self.scheduled_time)},{self.ordering_id},{self.uniqueness_key})"

    @classmethod
    def parse(cls, text: str) -> TaskKey:
        """Reads a key; milliseconds are optional.

        Raises:
            DecodeError: it is no key, or has several readings.
        """
        found, *others = cls.readings(text)
        if others:
            raise _no_key(text)
        return found

    @classmethod
    def readings(cls, text: str, ordering_id: str = "") -> list[TaskKey]:
        """The keys that a text may mean: one, unless an id has commas and the ordering id is not given.

        >>> len(TaskKey.readings("TaskKey(2016-02-09T01:41:12Z,a,b,c)"))
        2
        >>> TaskKey.readings("TaskKey(2016-02-09T01:41:12Z,a,b,c)", "a,b")[0].uniqueness_key
        'c'

        Raises:
            DecodeError: it is no key, or none with this ordering id, or has too many commas.
        """
        found = _KEY.fullmatch(text)
        ids = "" if found is None else found[2]
        ends = [at for at in range(1, len(ids) - 1) if ids[at] == ","]
        if ordering_id:
            ends = [at for at in ends if ids[:at] == ordering_id]
        if found is None or not ends:
            raise _no_key(text)
        if len(ends) > _MOST_READINGS:
            raise DecodeError("$", f"its ids have more than {_MOST_READINGS} commas: give the orderingId, too")
        time = read_time(found[1], "$")
        return [cls(time, ids[:end], ids[end + 1 :]) for end in ends]


@dataclass(frozen=True, slots=True)
class Task:
    """A task to be scheduled. Tasks of one ordering id are delivered one after another, in the order of their keys.

    Attributes:
        ordering_id: its lane.
        scheduled_time: it is not delivered earlier; UTC, rounded up to milliseconds.
        uniqueness_key: distinguishes tasks of the same time and ordering id.
        data: what is delivered.

    Raises:
        InvalidError: the time has no zone or is out of range, an id is empty or cannot be stored, or the data is no
            mapping of texts or has more than 256 KiB as JSON.
    """

    ordering_id: str
    scheduled_time: datetime
    uniqueness_key: str
    data: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.scheduled_time.tzinfo is None:
            raise InvalidError("$.scheduledTime", "must have a time zone")
        with prefix_errors("$", due="scheduledTime"):
            check_instant(self.scheduled_time, "$.due")
        object.__setattr__(self, "scheduled_time", _milliseconds(self.scheduled_time.astimezone(UTC)))
        for name, text in (("orderingId", self.ordering_id), ("uniquenessKey", self.uniqueness_key)):
            with prefix_errors("$", key=name):
                check_task_key(text)
        for name, text in self.data.items():
            # Its values may come from a caller of Python.
            if not isinstance(name, str) or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidError("$.taskData", f"must be an object of texts, but has {format_value({name: text})}")
        self.request()

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.scheduled_time, self.ordering_id, self.uniqueness_key)

    def request(self) -> TaskRequest:
        """Its registration in a queue."""
        with prefix_errors("$", data="taskData", due="scheduledTime"):
            return TaskRequest(
                key=self.uniqueness_key,
                lane=self.ordering_id,
                due_at=self.scheduled_time,
                data=_dump(self.data),
                content_type="application/json",
            )


def _no_key(text: str) -> DecodeError:
    return DecodeError("$", f"must be TaskKey(time,orderingId,uniquenessKey) but is {format_value(text)}")


def requests_of(text: str, ordering_id: str = "") -> list[TaskRequest]:
    """Registrations with the identities that the text of a key may mean, as `TaskKey.readings`.

    Raises:
        InvalidError: it is no key, or an id cannot be stored in any reading.
    """
    found, wrong = list[TaskRequest](), list[InvalidError]()
    for each in TaskKey.readings(text, ordering_id):
        try:
            found.append(request_of(each))
        except InvalidError as exc:
            wrong.append(exc)
    if not found:
        raise wrong[0]
    return found


def request_of(key: TaskKey) -> TaskRequest:
    """A registration with the identity of this key.

    Raises:
        InvalidError: an id is empty or cannot be stored.
    """
    TaskLane(SCHEDULER, key.ordering_id)
    check_task_key(key.uniqueness_key)
    return TaskRequest(key=key.uniqueness_key, lane=key.ordering_id, due_at=key.scheduled_time)


def encode(task: Task) -> bytes:
    """The value of its record."""
    return _dump(to_json(task))


def to_json(task: Task) -> dict[str, Any]:
    """The JSON of a task."""
    return {
        "orderingId": task.ordering_id,
        "scheduledTime": time_text(task.scheduled_time),
        "uniquenessKey": task.uniqueness_key,
        "taskData": dict(task.data),
        "version": VERSION,
    }


def decode(value: bytes | None) -> Task:
    """The inverse of `encode`.

    Raises:
        DecodeError: with the path of the field.
    """
    if value is None:
        raise DecodeError("$", "is a tombstone; a task is cancelled by hand, not by a record")
    return from_json(parse(value))


def from_json(value: object, path: str = "$") -> Task:
    """Reads a task.

    Raises:
        DecodeError: with the path of the field.
    """
    fields = Fields(value, path)
    version = fields.optional_integer("version")
    if version not in (None, VERSION):
        fields.fail("version", f"must be {VERSION} but is {version}")
    ordering_id, uniqueness_key = fields.text("orderingId"), fields.text("uniquenessKey")
    time, data = fields.instant("scheduledTime"), fields.texts("taskData")
    try:
        return Task(ordering_id, time, uniqueness_key, data)
    except InvalidError as exc:
        raise DecodeError(f"{path}{exc.path.removeprefix('$')}", exc.reason) from exc


def time_text(time: datetime) -> str:
    """A time as its clients write it."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_time(text: str, path: str) -> datetime:
    """A time of a key or a parameter: UTC with a final `Z`.

    Raises:
        DecodeError: it is none.
    """
    if not _TIME.fullmatch(text):
        raise DecodeError(path, f"must be a time such as 2016-02-09T01:41:12.959Z but is {format_value(text)}")
    return _milliseconds(instant(text, path))


def is_too_late(task: Task, now: datetime, grace: timedelta = GRACE) -> bool:
    """Whether it was due too long ago to be enqueued."""
    return task.scheduled_time < add_duration(now, -grace)


def _milliseconds(time: datetime) -> datetime:
    """Rounded up, so that nothing is delivered early."""
    rest = time.microsecond % 1000
    return add_duration(time, _MILLISECOND - timedelta(microseconds=rest)) if rest else time


def _dump(value: object) -> bytes:
    try:
        return orjson.dumps(value if isinstance(value, dict) else dict(value))  # type: ignore[call-overload]
    except (TypeError, ValueError) as exc:
        raise InvalidError("$.taskData", f"cannot be written as JSON: {exc}") from exc

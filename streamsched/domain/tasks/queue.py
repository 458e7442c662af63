"""Queues of tasks: where their tasks are delivered, how they are retried, and how many at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from streamsched.domain.constraints.pace import BucketLevel, Pace
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.limits import LONGEST_NAME, MOST_SLOTS, check_count, check_duration
from streamsched.domain.names import EventName, check_queue_name
from streamsched.domain.tasks.identity import TaskLane, check_task_key, task_id
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.tasks.task_retry import MOST_RETRIES, BackoffRetry, TaskRetry

#: The most queues of an installation: each is asked for due lanes at every step of its owners.
MOST_QUEUES: Final = 1000
#: The most tasks in one registration.
MOST_TASKS: Final = 1000
#: The longest dedupe horizon: ended tasks are kept for as long.
LONGEST_HORIZON: Final = timedelta(days=365)
#: The longest wait for the answer of a webhook's target.
LONGEST_WEBHOOK: Final = timedelta(minutes=1)
_LONGEST_URL: Final = 2000
_LONGEST_TIMEOUT: Final = timedelta(days=1)
_MOST_HEADERS: Final = 50
_LONGEST_HEADER: Final = 1000
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: Headers that the delivery itself writes.
_OWN_HEADERS: Final = frozenset({"content-length", "content-type", "host", "idempotency-key", "transfer-encoding"})
_MOST_RATE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Each task is a POST of its data to `url`; a 2xx response acknowledges it."""

    url: str
    timeout: timedelta = timedelta(seconds=30)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        _check_url(self.url)
        check_duration(self.timeout, "$.timeout", longest=_LONGEST_TIMEOUT)
        if len(self.headers) > _MOST_HEADERS:
            raise InvalidDefinitionError("$.headers", f"must be at most {_MOST_HEADERS}")
        for name, value in self.headers.items():
            if len(name) > LONGEST_NAME or not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise InvalidDefinitionError("$.headers", f"'{name[:60]}' is not the name of a header that can be set")
            if len(value) > _LONGEST_HEADER or not value.isascii() or not all(each.isprintable() for each in value):
                raise InvalidDefinitionError(
                    "$.headers", f"the value of '{name}' must be at most {_LONGEST_HEADER} printable ASCII characters"
                )


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """Each task is published as a custom event with its data as attributes: stored with its end, so exactly once."""

    event: EventName


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """Tasks go to connected workers; while there is none they are staged: they wait without using up an attempt. An
    attempt fails when its worker neither ends it nor sends a heartbeat for it within `timeout`.

    Attributes:
        max_losses: a task whose worker was lost so often while it did it is delivered again; after one more it fails.
    """

    timeout: timedelta = timedelta(seconds=60)
    max_losses: int = 5

    def __post_init__(self) -> None:
        check_duration(self.timeout, "$.timeout", longest=_LONGEST_TIMEOUT)
        check_count(self.max_losses, "$.maxLosses", least=0, most=MOST_RETRIES)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Each task is a change that is sent to the webhook for which the queue was made (`domain.webhooks`)."""


Target = HttpTarget | TopicTarget | WorkerTarget | WebhookTarget


class TaskIdentity(StrEnum):
    """What two registrations must have in common, besides queue and lane, to be of the same task."""

    KEY = "key"
    KEY_AND_DUE = "key_and_due"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """How the tasks of a queue are registered and delivered.

    Attributes:
        retry: of tasks that do not bring their own.
        grace: a task due longer ago than this is refused; None: no limit.
        dedupe: how long after its end a task is recognised as a repeat.
        max_in_flight: most tasks in flight at a time, in the whole installation; None: what its processes can hold.
        rate: most deliveries per second on average; None: no limit.
        burst: most deliveries at once within the rate.
        identity: of a task; it cannot be changed.
        ends: name of the event that each end of a task is, also of a tick; None: none.
    """

    target: Target
    retry: TaskRetry = field(default_factory=BackoffRetry)
    grace: timedelta | None = None
    dedupe: timedelta = timedelta(days=14)
    max_in_flight: int | None = None
    rate: float | None = None
    burst: int = 1
    identity: TaskIdentity = TaskIdentity.KEY
    ends: EventName | None = None

    def __post_init__(self) -> None:
        if self.grace is not None:
            check_duration(self.grace, "$.grace", zero=True)
        check_duration(self.dedupe, "$.dedupe", zero=True, longest=LONGEST_HORIZON)
        if self.max_in_flight is not None:
            check_count(self.max_in_flight, "$.maxInFlight", most=MOST_SLOTS)
        if self.rate is not None and not 0.001 <= self.rate <= _MOST_RATE:
            raise InvalidDefinitionError("$.rate", f"must be from 0.001 to {_MOST_RATE} deliveries per second")
        check_count(self.burst, "$.burst", most=_MOST_RATE)
        if isinstance(self.target, TopicTarget):
            if self.max_in_flight is not None:
                why = "is set, but an event that is published is never in flight"
                raise InvalidDefinitionError("$.maxInFlight", why)
            if self.ends is not None:
                raise InvalidDefinitionError("$.ends", "is set, but each task of this queue is an event itself")

    @property
    def is_limited(self) -> bool:
        """Whether its owners must agree on how many tasks to start."""
        return self.max_in_flight is not None or self.rate is not None

    def id_of(self, queue: str, request: TaskRequest) -> tuple[TaskLane, str]:
        """The lane of a registration and the id of its task.

        Raises:
            InvalidError: a name is invalid, or the due time is missing where it belongs to the identity.
        """
        check_task_key(request.key)
        lane = TaskLane(queue, request.lane or request.key)
        match self.identity:
            case TaskIdentity.KEY:
                return lane, task_id(lane, request.key)
            case TaskIdentity.KEY_AND_DUE:
                if request.due_at is None:
                    raise InvalidError("$.due", f"is required: it belongs to the identity of tasks in queue '{queue}'")
                return lane, task_id(lane, request.key, request.due_at)


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """A queue as it is stored. A paused one takes registrations and starts nothing."""

    name: str
    policy: QueuePolicy
    paused: bool = False

    def __post_init__(self) -> None:
        check_queue_name(self.name)


def count_startable(policy: QueuePolicy, in_flight: int, level: BucketLevel | None, now: datetime) -> int | None:
    """How many tasks may be started now, by cap and rate; None: any number. `level`: of the bucket, None: full."""
    allowed = None if policy.max_in_flight is None else max(0, policy.max_in_flight - in_flight)
    if policy.rate is None:
        return allowed
    tokens = max(0, _pace(policy).available_tokens(level or _full_level(policy, now), now))
    return tokens if allowed is None else min(allowed, tokens)


def take_tokens(policy: QueuePolicy, level: BucketLevel | None, started: int, now: datetime) -> BucketLevel | None:
    """The level of the rate's bucket after that many starts; None without a rate."""
    return None if policy.rate is None else _pace(policy).take_tokens(level or _full_level(policy, now), started, now)


def token_at(policy: QueuePolicy, level: BucketLevel | None, now: datetime) -> datetime:
    """When the rate allows the next start: `now` or later."""
    return now if policy.rate is None else _pace(policy).next_token_at(level or _full_level(policy, now), now)


def _pace(policy: QueuePolicy) -> Pace:
    assert policy.rate is not None
    return Pace(policy.rate, policy.burst)


def _full_level(policy: QueuePolicy, now: datetime) -> BucketLevel:
    return BucketLevel(float(policy.burst), now)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    printable = url.isascii() and all(each.isprintable() and each != " " for each in url)
    if not valid or not printable or len(url) > _LONGEST_URL:
        raise InvalidDefinitionError(
            "$.url", f"must be a URL of at most {_LONGEST_URL} characters, as in https://host/path"
        )

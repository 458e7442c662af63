"""Queues of tasks: their policies, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.json_union import JsonUnion
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import EventName
from streamsched.domain.tasks.queue import (
    HttpTarget,
    QueuePolicy,
    Target,
    TaskIdentity,
    TopicTarget,
    WebhookTarget,
    WorkerTarget,
)
from streamsched.domain.tasks.task_retry import BackoffRetry, ConstantRetry, PeriodRetry, TaskRetry

TARGET: Final = JsonUnion(
    "TaskTarget",
    JsonShape(
        HttpTarget,
        tag="http",
        about={
            "url": About("https://example.org/mail"),
            "timeout": About("30s"),
            "headers": About("data", key="X-Team"),
        },
    ),
    JsonShape(TopicTarget, tag="publish", about={"event": About("default.mailed")}),
    JsonShape(WorkerTarget, tag="worker", about={"timeout": About("1m"), "max_losses": About(5)}),
    JsonShape(WebhookTarget, tag="webhook"),
)
RETRY: Final = JsonUnion(
    "TaskRetry",
    JsonShape(
        BackoffRetry,
        tag="backoff",
        about={"retries": About(100), "delay": About("20s"), "longest": About("2m"), "jitter": About(0.5)},
    ),
    JsonShape(PeriodRetry, tag="period", about={"period": About("30s")}),
    JsonShape(ConstantRetry, tag="constant", about={"interval": About("1s"), "retries": About(3)}),
)
_TARGET: Final = About(shape=TARGET)
_RETRY: Final = About(shape=RETRY)
_GRACE: Final = About("10s")
_DEDUPE: Final = About("14d")
_COUNT: Final = About(10, least=1, most=MOST_SLOTS)
_RATE: Final = About(5.0)
_ENDS: Final = About("default.mailed", pattern=r"^([a-zA-Z0-9_]+\.)?[$a-zA-Z0-9_-]+$")
POLICY: Final = JsonShape(
    QueuePolicy,
    about={
        "target": _TARGET,
        "retry": _RETRY,
        "grace": _GRACE,
        "dedupe": _DEDUPE,
        "max_in_flight": _COUNT,
        "rate": _RATE,
        "burst": _COUNT,
        "ends": _ENDS,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue with its policy. `tasks`, `in_flight`: counted up to 10,000; `ready_at`: when its first lane is ready."""

    name: Annotated[str, About("mail")]
    target: Annotated[Target, _TARGET]
    retry: Annotated[TaskRetry, _RETRY]
    grace: Annotated[timedelta | None, _GRACE]
    dedupe: Annotated[timedelta, _DEDUPE]
    max_in_flight: Annotated[int | None, _COUNT]
    rate: Annotated[float | None, _RATE]
    burst: Annotated[int, _COUNT]
    identity: TaskIdentity
    ends: Annotated[EventName | None, _ENDS]
    paused: Annotated[bool, About(False)]
    tasks: Annotated[int, About(0)]
    in_flight: Annotated[int, About(0)]
    ready_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsState:
    """The number of partitions of lanes. While it changes, `wanted` is another or `settled` is false.

    Attributes:
        step: what is next.
        taken: how many have, or had, an owner.
    """

    partitions: Annotated[int, About(16, of="layout.partitions")]
    wanted: Annotated[int | None, About(16, of="layout.wanted")]
    settled: Annotated[bool, About(of="layout.settled")]
    step: str | None
    taken: Annotated[int, About(16)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A wanted number of partitions of lanes."""

    partitions: Annotated[int, About(32, minimum=1, maximum=256)]


QUEUE: Final = JsonShape(QueueState, "Queue")
PARTITIONS: Final = JsonShape(PartitionsState, "LanePartitions")
NEW_PARTITIONS: Final = JsonShape(NewPartitions, "NewLanePartitions")
NEW_POLICY: Final = POLICY.body_with(reason=(str, REASON))

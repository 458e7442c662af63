"""Schedules as the API answers: the definition, the state and the progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text, choice, nullable
from streamsched.domain.access.namespace_grant import NamespaceGrant
from streamsched.domain.programs.removed_program import RemovedProgram
from streamsched.domain.schedules.pause import Pause
from streamsched.wire.namespaces import NAMESPACE_GRANT

#: Of a schedule; `error`: its state is damaged.
STATE: Final = About(schema=choice(("enabled", "paused", "disabled", "error")))
SCHEDULE: Final = About("default.flights.weekly")
PROGRAM: Final = About("default.flights.join")


class VerdictTotal(NamedTuple):
    """How often a schedule gave a verdict, of all time; `late`: the policy applied to late events, else empty."""

    verdict: Annotated[str, About("used")]
    late: Annotated[str, About(schema=nullable(any_text()), blank=True)]
    total: Annotated[int, About(7)]
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLosses:
    """Keys and events that a generation of a schedule did not keep."""

    expired_keys: Annotated[int, About(0)]
    dropped_keys: Annotated[int, About(0)]
    refused_events: Annotated[int, About(0)]
    keyless_events: Annotated[int, About(12, "Events without a key, or with partitions without one.")]
    keyless_why: Annotated[str, About("hour='5am' names no hour", "Why the last of them had none.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleError:
    """Why a schedule is in error. `parked`: signals that wait for its replay."""

    kind: Annotated[str, About("fold")]
    message: Annotated[str, About("cannot be decoded")]
    signal: Annotated[str, About("topic 3/17")]
    at: datetime
    parked: Annotated[int, About(2)]
    attempts: int
    release: Annotated[str, About("0.1.0")]
    why: Annotated[str, About("the signal cannot be decoded", of="reason")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafLoss:
    """What a leaf of a trigger had accumulated."""

    leaf: Annotated[str, About("partition:default.flights")]
    have: Annotated[int, About(3)]
    need: Annotated[int, About(7)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedState:
    """What a schedule lost."""

    accumulated: Annotated[Sequence[LeafLoss], About(of="stakes", shape=JsonShape(LeafLoss))]
    waiting_jobs: Annotated[int, About(0)]
    open_keys: Annotated[int, About(0)]
    parked_signals: Annotated[int, About(0, of="parked")]


DROPPED: Final = JsonShape(DroppedState, "Dropped", named=True, text="What a schedule lost.")
LOSSES: Final = JsonShape(ScheduleLosses)
_REMOVED: Final = JsonShape(
    RemovedProgram,
    also=("text",),
    about={
        "program": About("sales.orders.load"),
        "by": About("token:sales-ci"),
        "text": About("waits for sales.orders.load, which was deleted by token:sales-ci at …"),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedSchedule:
    """A schedule: its definition, its state and its progress.

    Attributes:
        definition: as JSON; also what a later release shows besides.
        generation: version of its definition and state.
        losses: of this generation; None: none.
        progress: how far the trigger is; None before the first event.
        verdicts, grants: of all generations, and of other namespaces; of a single schedule, not in lists.
        etag: of this reading, for `put_schedule`; empty in lists.
    """

    id: Annotated[str, About("default.flights.weekly", of="record.definition.ref")]
    definition: Mapping[str, Any]
    when: Annotated[
        str, About("7 partitions of default.flights", "The trigger as a sentence.", of="record.definition.trigger")
    ]
    enabled: Annotated[bool, About(of="record.enabled")]
    state: Annotated[str, About(schema=STATE.schema, of="record.status")]
    pause: Annotated[Pause | None, About(shape=JsonShape(Pause, also=("keep",)), of="record.pause")]
    generation: Annotated[int, About(of="record.generation")]
    created_at: Annotated[datetime, About(of="record.created_at")]
    updated_at: Annotated[datetime, About(of="record.updated_at")]
    next_tick_at: datetime | None
    waiting_jobs: Annotated[int, About(0)]
    open_keys: Annotated[int, About(0)]
    losses: Annotated[ScheduleLosses | None, About(shape=LOSSES)]
    progress: Annotated[
        Mapping[str, Any] | None,
        About(schema={"type": "object", "examples": [{}], "description": "How far the trigger is."}),
    ]
    error: Annotated[ScheduleError | None, About(shape=JsonShape(ScheduleError), of="halt")]
    removed: Annotated[
        Sequence[RemovedProgram],
        About(text="Programs of other namespaces that it waits for and that were deleted.", shape=_REMOVED),
    ]
    verdicts: Annotated[Sequence[VerdictTotal] | None, About(shape=JsonShape(VerdictTotal, named=True))] = None
    grants: Annotated[Sequence[NamespaceGrant] | None, About(shape=NAMESPACE_GRANT)] = None
    etag: str = ""

    @property
    def program(self) -> str:
        """The name of its program, in its app."""
        return self.definition["program"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedSchedule(DeployedSchedule):
    """A schedule that was paused or disabled: what it lost, and the jobs that ended."""

    dropped: Annotated[DroppedState, About(shape=DROPPED)]
    ended_jobs: Sequence[str]


#: As the client reads them.
DEPLOYED: Final = JsonShape(DeployedSchedule, outside=("etag",), about={"definition": About(spread=True)})
SUSPENDED: Final = JsonShape(SuspendedSchedule, outside=("etag",), about={"definition": About(spread=True)})

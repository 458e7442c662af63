"""Backfills and their jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.backfills.backfill import (
    BackfillCounts,
    BackfillOrder,
    BackfillState,
    ItemState,
    KnownOutcome,
    Only,
)
from streamsched.domain.names import ScheduleRef

_SPAN: Final = ("from_", "to", "keys", "dataset", "partitions")
_OPTIONS: Final = ("only", "order", "max_active", "mute", "arguments", "reason", "max_failures")
_NUMBER: Final = About(0)
COUNTS: Final = JsonShape(
    BackfillCounts,
    also=("waiting",),
    about={
        **dict.fromkeys(("skipped", "waiting", "active", "succeeded", "failed", "dropped"), _NUMBER),
        "items": About(0, name="jobs"),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill: its state, and what was asked for.

    Attributes:
        state_reason: why it is in its state.
        counts: its jobs by what became of them.
        from_, to, keys, dataset, partitions: its span.
    """

    id: Annotated[str, About("default.flights.weekly.backfill-1")]
    schedule: ScheduleRef
    state: BackfillState
    state_reason: Annotated[str, About("", of="reason")]
    counts: Annotated[BackfillCounts, About(shape=COUNTS)]
    created_at: datetime
    changed_at: datetime
    ended_at: datetime | None
    only: Only
    order: BackfillOrder
    max_active: Annotated[int, About(4)]
    mute: Annotated[bool, About(False)]
    arguments: Annotated[Mapping[str, str], About("2026-03-01")]
    reason: str
    from_: Annotated[str | None, About("2026-03-01", name="from")] = None
    to: Annotated[str | None, About("2026-03-07")] = None
    keys: Annotated[Mapping[str, Sequence[str]] | None, About(key="year")] = None
    dataset: Annotated[str | None, About("default.flights")] = None
    partitions: Annotated[Mapping[str, Any] | None, About(schema={"type": "object"})] = None
    max_failures: Annotated[int | None, About(20)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedBackfill(Backfill):
    """A backfill that was asked for. `repeated`: an earlier request with the same key had started it."""

    repeated: Annotated[bool, About(False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    job: Annotated[str, About("default.flights.weekly.1.1", of="ready.id")]
    logical_time: Annotated[datetime | None, About(of="ready.submission.logical_at")]
    key: Annotated[str | None, About(of="ready.key", blank=True)]
    events: Annotated[int, About(of="ready.events")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOfBackfill(_Item):
    """A job of a backfill. `outcome`, `reason`: of its last run."""

    number: int
    state: ItemState
    outcome: Annotated[str | None, About(blank=True)]
    reason: Annotated[str | None, About(blank=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(_Item):
    """A job that a backfill would make. `known`: what is known of its events, by the job `latest`."""

    arguments: Annotated[Mapping[str, str], About("2026-03-01")]
    known: KnownOutcome
    latest: Annotated[str | None, About(blank=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What a request would do: all jobs are counted, the first ones are listed."""

    counts: Annotated[BackfillCounts, About(shape=COUNTS)]
    jobs: Annotated[Sequence[PlannedJob], About(shape=JsonShape(PlannedJob))]


_SOMETIMES: Final = ("from", *_SPAN[1:], "maxFailures")
BACKFILL: Final = JsonShape(Backfill, sometimes=_SOMETIMES)
BACKFILLS: Final = BACKFILL.page("backfills")
STARTED_BACKFILL: Final = JsonShape(StartedBackfill, sometimes=_SOMETIMES)
JOB_OF_BACKFILL: Final = JsonShape(JobOfBackfill)
JOBS_OF_BACKFILL: Final = JOB_OF_BACKFILL.page("jobs", "BackfillJobPage")
BACKFILL_PLAN: Final = JsonShape(BackfillPlan)
#: What is not in the stored request.
BACKFILL_STATE: Final = JsonShape(Backfill, outside=(*_OPTIONS, *_SPAN))

"""Submissions, reruns and backfills: jobs that a person asks for. Preferences: arguments that a person gives to every
run of a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from streamsched.domain.backfills.backfill import BackfillFact, BackfillState, ItemState, KnownOutcome
from streamsched.domain.backfills.request import BackfillRequest
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.submission_request import BulkRerunRequest, RerunRequest, SubmissionRequest


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """The job of a submission. `repeated`: an earlier request with the same idempotency key made it."""

    job: str
    repeated: bool


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job whose last run failed or was lost. `run`: that run, the attempt of this number, with its state, reason and
    end.
    """

    id: str
    run: str
    attempt: int
    state: RunState
    reason: str
    ended_at: datetime


class SubmissionStore(Protocol):
    """Makes jobs of requests. Idempotent by the request's token, as long as the history keeps the job."""

    async def submit(self, request: SubmissionRequest, *, now: datetime) -> SubmittedJob:
        """Stores the job, which waits for its constraints like any other, and notifies the launchers. A schedule that
        is paused keeps it waiting.

        Raises:
            NotFoundError: no such schedule or program.
            InvalidError: the key does not fit the schedule; a program has schedules in several pools.
            ConflictError: the schedule is disabled, or the token belongs to another request.
            UnavailableError: PostgreSQL is unavailable; a repeat finds what was stored.
        """
        ...

    async def rerun(self, request: RerunRequest, *, now: datetime) -> SubmittedJob:
        """Stores a job with the events, key and logical time of an earlier one, as `submit`; it waits by itself. Both
        jobs have it in their history.

        Raises:
            NotFoundError: no such job or run, or its schedule or program was removed.
            InvalidError: the token is empty or too long.
            ConflictError: the job has had no run, or the run has not ended; the schedule is disabled; the token belongs
                to another request.
            UnavailableError: PostgreSQL is unavailable; a repeat finds what was stored.
        """
        ...

    async def failed(self, request: BulkRerunRequest, *, now: datetime) -> Sequence[FailedJob]:
        """The jobs that `rerun_failed` would repeat, oldest first.

        Raises:
            NotFoundError: no such schedule.
            InvalidError: there are more than `MOST_RERUNS`, or too many jobs to search.
            ConflictError: the schedule is disabled or draining.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def rerun_failed(self, request: BulkRerunRequest, *, now: datetime) -> Sequence[SubmittedJob]:
        """Repeats them, as `rerun`, all or none, oldest first.

        Raises:
            NotFoundError, InvalidError, ConflictError, UnavailableError: as `failed`; nothing was stored.
            ConflictError: also when the token belongs to another request.
        """
        ...


@dataclass(frozen=True, slots=True)
class BackfillCounts:
    """How many items a backfill has, in all and by state.

    Attributes:
        skipped: of its span, left out by `only`; not among `items`.
    """

    items: int
    skipped: int
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    dropped: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.dropped

    @property
    def waiting(self) -> int:
        return self.items - self.active - self.ended


@dataclass(frozen=True, slots=True)
class BackfillRecord:
    """A stored backfill. Times are UTC.

    Attributes:
        request: what was asked for, as `codec.backfills` writes it.
        reason: why it is in its state.
        changed_at: when it entered its state.
    """

    id: str
    schedule: ScheduleRef
    request: Mapping[str, Any]
    state: BackfillState
    reason: str
    counts: BackfillCounts
    created_at: datetime
    changed_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class BackfillJob:
    """An item of a stored backfill. `outcome` and its `reason` are those of its job and last run, "" before."""

    number: int
    state: ItemState
    ready: ReadyJob
    outcome: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job that a backfill would make.

    Attributes:
        arguments: those of its run.
        known: what earlier jobs of the schedule did with its tick, key or partitions.
        latest: the id of the latest of these; "" when there is none.
    """

    ready: ReadyJob
    arguments: Mapping[str, str]
    known: KnownOutcome
    latest: str


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What a request would do: all its jobs are counted, and the first ones listed in the order they would start."""

    counts: BackfillCounts
    jobs: Sequence[PlannedJob]


class BackfillStore(Protocol):
    """Backfills. Their jobs are made by `BackfillFeed`."""

    async def plan(self, request: BackfillRequest, *, now: datetime, limit: int) -> BackfillPlan:
        """What `start` would do, with the first `limit` jobs.

        Raises:
            NotFoundError: no such schedule.
            InvalidError: span, key or arguments do not fit the schedule, or the span has too many items.
            ConflictError: the schedule is disabled.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def start(self, request: BackfillRequest, *, now: datetime) -> tuple[BackfillRecord, bool]:
        """Stores the backfill with all its items; whether an earlier request with the same token had stored it.

        Raises:
            NotFoundError, InvalidError, ConflictError, UnavailableError: as `plan`; nothing was stored.
            InvalidError: also when no job is left to make, or more than `UNCONFIRMED` and that was not confirmed.
            ConflictError: also when the token belongs to another request, or too many backfills have not ended.
        """
        ...

    async def get(self, backfill: str) -> BackfillRecord:
        """Raises:
        NotFoundError: no such backfill.
        """
        ...

    async def recent(
        self,
        *,
        schedule: ScheduleRef | None = None,
        namespace: str | None = None,
        limit: int,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[BackfillRecord]:
        """The newest first, older than `before` (time of creation and id); of all schedules and namespaces when none is
        named.
        """
        ...

    async def jobs(
        self, backfill: str, *, states: Sequence[ItemState] = (), limit: int, after: int = 0
    ) -> Sequence[BackfillJob]:
        """Items with a number above `after`, by number; of all states when none is named.

        Raises:
            NotFoundError: no such backfill.
        """
        ...

    async def change(self, backfill: str, fact: BackfillFact, reason: str, *, now: datetime) -> BackfillRecord:
        """Pauses, resumes or cancels: its waiting jobs are held, released or cancelled with it; runs go on. Idempotent.

        Raises:
            NotFoundError: no such backfill.
            ConflictError: it has ended.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


class BackfillFeed(Protocol):
    """Makes jobs of the items of backfills."""

    async def feed(self, *, now: datetime, limit: int) -> int | None:
        """Records which jobs of up to `limit` backfills have ended, and makes their next jobs, up to `max_active` each,
        in one transaction. Returns how many jobs it made or found ended; None when no backfill is running or has active
        jobs. Idempotent: the id of a job is a function of backfill and item.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...

    async def forget(self, *, before: datetime) -> int:
        """Deletes backfills that ended before then, a bounded number; returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class PreferenceRecord:
    """The preferences of a namespace.

    Attributes:
        deployed: whether an app was ever deployed to the namespace; its name may be mistyped if not.
        reason: of the last change.
        changed_at: None of a namespace that never had preferences.
    """

    namespace: str
    deployed: bool
    arguments: Mapping[str, str]
    reason: str
    changed_at: datetime | None


class PreferenceStore(Protocol):
    """Preferences of namespaces (`domain.schedules.preferences`). A namespace need not have an app."""

    async def get(self, namespace: str) -> PreferenceRecord:
        """Empty when the namespace has none."""
        ...

    async def change(
        self, namespace: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]], reason: str, *, now: datetime
    ) -> PreferenceRecord:
        """Stores what `decide` makes of the present ones, under their lock, and writes which names changed to the
        history; `reason` says who and why. Equal ones change nothing. What `decide` raises is raised, and nothing
        changes. Jobs that become runs afterwards have them.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the change may be repeated.
        """
        ...

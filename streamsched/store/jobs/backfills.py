"""Backfills: plans, starts, reads, and what a person changes of them. Their jobs are made by `backfill_feed`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, assert_never

from streamsched.codec.backfills import request_to_json, same_request
from streamsched.codec.json.scalar import loads
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.domain.backfills.backfill import (
    BACKFILL_STATES,
    BackfillCounts,
    BackfillFact,
    BackfillOrder,
    BackfillState,
    ItemState,
    KnownOutcome,
    item_state,
    known_outcome,
)
from streamsched.domain.backfills.items import BackfillItem, items_of
from streamsched.domain.backfills.request import UNCONFIRMED, BackfillRequest, KeySpan, PartitionSpan, Span, TickSpan
from streamsched.domain.decisions.decision import invalidity
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.jobs.job import JobCommand, JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.preferences import with_preferences
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.store.connections import NEWEST, Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/backfills")
#: Most backfills that have not ended.
_UNFINISHED: Final = 1000
#: The newest jobs of a schedule that are searched for earlier runs, and as many in the history.
_EXAMINED: Final = 200_000
#: The state that a person's request leads to.
_TARGETS: Final[Mapping[BackfillFact, BackfillState]] = MappingProxyType(
    {
        BackfillFact.PAUSED: BackfillState.PAUSED,
        BackfillFact.RESUMED: BackfillState.RUNNING,
        BackfillFact.CANCELLED: BackfillState.CANCELLED,
    }
)
#: Items stored by one statement.
_ITEMS: Final = 10_000


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


class BackfillRow(NamedTuple):
    """A row of `backfills`."""

    id: str
    schedule: str
    request: dict[str, Any]
    state: str
    reason: str
    items: int
    skipped: int
    active: int
    succeeded: int
    failed: int
    dropped: int
    created_at: datetime
    changed_at: datetime
    ended_at: datetime | None
    max_active: int
    newest_first: bool


class _ScheduleRow(NamedTuple):
    definition: str
    generation: int
    enabled: bool
    oldest_valid_generation: int
    created_at: datetime
    program_definition: str
    preferences: str | None


class _KnownJob(NamedTuple):
    mark: str
    id: str
    state: str
    run: str | None


class _ItemRow(NamedTuple):
    number: int
    state: str
    ready: str
    outcome: str
    reason: str


_GET: Final = Select(_SQL["get"], BackfillRow)
_LOCK: Final = Select(_SQL["lock"], BackfillRow)
_RECENT: Final = Select(_SQL["recent"], BackfillRow)
_CHANGE: Final = Select(_SQL["change"], BackfillRow)
_SCHEDULE: Final = Select(_SQL["schedule"], _ScheduleRow)
_KNOWN: Final = Select(_SQL["known"], _KnownJob)
_ITEM_ROWS: Final = Select(_SQL["items"], _ItemRow)


class BackfillStore:
    """Backfills. Their jobs are made by `BackfillFeed`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def plan(self, request: BackfillRequest, *, now: datetime, limit: int) -> BackfillPlan:
        """What `start` would do, with the first `limit` jobs.

        Raises:
            NotFoundError: no such schedule.
            InvalidError: span, key or arguments do not fit the schedule, or the span has too many items.
            ConflictError: the schedule is disabled.
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            chosen = await self._choose(request, now)
        numbered = list(enumerate(chosen.items, start=1))
        if request.order is BackfillOrder.NEWEST:
            numbered.reverse()
        jobs: list[PlannedJob] = []
        for number, item in numbered[:limit]:
            found = item.ready_job(request.schedule, chosen.generation, request.id, number, now)
            ready = job_of_item(found, request_to_json(request), found.generation, found.sequence, now)
            given = arguments(chosen.program, chosen.schedule, ready)
            latest = next((chosen.latest[mark] for mark in reversed(item.marks) if mark in chosen.latest), "")
            jobs.append(PlannedJob(ready, given, chosen.known_outcome(item), latest))
        return BackfillPlan(BackfillCounts(len(chosen.items), chosen.skipped), jobs)

    async def start(self, request: BackfillRequest, *, now: datetime) -> tuple[BackfillRecord, bool]:
        """Stores the backfill with all its items; whether an earlier request with the same token had stored it.

        Raises:
            NotFoundError, InvalidError, ConflictError, UnavailableError: as `plan`; nothing was stored.
            InvalidError: also when no job is left to make, or more than `UNCONFIRMED` and that was not confirmed.
            ConflictError: also when the token belongs to another request, or too many backfills have not ended.
        """
        with translate_errors():
            if (known := await self._find_repeated(request)) is not None:
                return known, True
            chosen = await self._choose(request, now)
            _check_size(request, chosen)
            rows = await asyncio.to_thread(_encode_items, request, chosen, now)
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["unfinished"]) >= _UNFINISHED:
                    raise ConflictError(f"{_UNFINISHED} backfills have not ended; wait for one, or cancel one")
                made = await connection.fetchval(
                    _SQL["insert"],
                    *(request.id, str(request.schedule), request_to_json(request), BackfillState.RUNNING),
                    *(request.max_active, request.order is BackfillOrder.NEWEST, len(rows), chosen.skipped),
                    *(now, request.reason),
                )
                for start in range(0, len(rows) if made else 0, _ITEMS):
                    numbers, readies = zip(*rows[start : start + _ITEMS], strict=True)
                    items = request.id, ItemState.WAITING, list(numbers), list(readies)
                    await connection.execute(_SQL["insert_items"], *items)
            if made is None and (known := await self._find_repeated(request)) is not None:  # a repeat was faster
                return known, True
        return await self.get(request.id), False

    async def get(self, backfill: str) -> BackfillRecord:
        """The backfill with its counts.

        Raises:
            NotFoundError: no such backfill.
        """
        with translate_errors():
            row = await _GET.fetchrow(self._pool, backfill)
        if row is None:
            raise NotFoundError("backfill", backfill)
        return backfill_record(row)

    async def list_recent(
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
        name = None if schedule is None else str(schedule)
        at, last = before or NEWEST
        with translate_errors():
            return [backfill_record(row) for row in await _RECENT.fetch(self._pool, name, limit, at, last, namespace)]

    async def jobs(
        self, backfill: str, *, states: Sequence[ItemState] = (), limit: int, after: int = 0
    ) -> Sequence[BackfillJob]:
        """Items with a number above `after`, by number; of all states when none is named.

        Raises:
            NotFoundError: no such backfill.
        """
        await self.get(backfill)
        with translate_errors():
            rows = await _ITEM_ROWS.fetch(self._pool, backfill, list(states), after, limit)
        return [BackfillJob(row.number, ItemState(row.state), launch.decode(row.ready), *row[3:]) for row in rows]

    async def change(self, backfill: str, fact: BackfillFact, reason: str, *, now: datetime) -> BackfillRecord:
        """Pauses, resumes or cancels: its waiting jobs are held, released or cancelled with it; runs go on. Idempotent.

        Raises:
            NotFoundError: no such backfill.
            ConflictError: it has ended.
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _LOCK.fetchrow(connection, backfill)
                if row is None:
                    raise NotFoundError("backfill", backfill)
                current = backfill_record(row)
                if current.state is _TARGETS.get(fact):
                    return current
                if current.state.is_terminal:
                    raise ConflictError(f"backfill '{backfill}' is {current.state}")
                return await change_state(connection, current, fact, reason, now)

    async def _choose(self, request: BackfillRequest, now: datetime) -> _Chosen:
        """The items of a request that `only` takes."""
        row = await _SCHEDULE.fetchrow(self._pool, str(request.schedule))
        if row is None:
            raise NotFoundError("schedule", str(request.schedule))
        schedule = schedule_from_json(loads(row.definition, "$"))
        refused = invalidity(
            known=True,
            current=row.generation,
            enabled=row.enabled,
            generation=row.generation,
            oldest_valid_generation=row.oldest_valid_generation,
        )
        if refused is not None:
            raise ConflictError(f"schedule '{request.schedule}' is disabled; enable it first")
        request.check_arguments(schedule)
        items = await asyncio.to_thread(
            items_of, schedule, request.span, generation=row.generation, created_at=row.created_at, now=now
        )
        path, variables = _mark_path(request.span)
        marks = list(dict.fromkeys(mark for item in items for mark in item.marks))
        known = await _KNOWN.fetch(self._pool, str(request.schedule), _EXAMINED, path, variables, marks)
        program = with_preferences(
            program_from_json(loads(row.program_definition, "$")), loads(row.preferences or "{}", "$")
        )
        whole = _Chosen(
            schedule,
            program,
            row.generation,
            items,
            {each.mark: item_state(JobState(each.state), _run_state(each.run)) for each in known},
            {each.mark: each.id for each in known},
        )
        kept = [item for item in items if request.only.takes(whole.known_outcome(item))]
        return replace(whole, items=kept, skipped=len(items) - len(kept))

    async def _find_repeated(self, request: BackfillRequest) -> BackfillRecord | None:
        """The backfill of an earlier request with this token.

        Raises:
            ConflictError: that was a different request.
        """
        row = await _GET.fetchrow(self._pool, request.id)
        if row is None:
            return None
        if not same_request(row.request, request):
            raise ConflictError(f"the idempotency key belongs to another request, which made backfill '{request.id}'")
        return backfill_record(row)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The items of a request, and what is known of them: by mark the state of its latest job, and its id."""

    schedule: Schedule
    program: Program
    generation: int
    items: Sequence[BackfillItem]
    states: Mapping[str, ItemState]
    latest: Mapping[str, str]
    skipped: int = 0

    def known_outcome(self, item: BackfillItem) -> KnownOutcome:
        return known_outcome(self.states, item.marks)


class _MarkPath(StrEnum):
    """Where the marks of a stored satisfaction are."""

    TICK = '$.events[*] ? (@.type == "tick").data.due_at'
    KEY = "$.key"
    PARTITION = '$.events[*] ? (@.type == "partitions.added" && @.data.dataset == $dataset).data.partitions[*].key'


def _mark_path(span: Span) -> tuple[_MarkPath, Mapping[str, str]]:
    match span:
        case TickSpan():
            return _MarkPath.TICK, {}
        case KeySpan():
            return _MarkPath.KEY, {}
        case PartitionSpan(dataset=dataset):
            return _MarkPath.PARTITION, {"dataset": str(dataset)}
        case _:
            assert_never(span)


def job_of_item(found: ReadyJob, request: Mapping[str, Any], generation: int, sequence: int, now: datetime) -> ReadyJob:
    """The job of an item at this time, with what the request (`request_to_json`) says about all jobs."""
    assert found.submission is not None
    submission = replace(
        found.submission, reason=request["reason"], arguments=request["arguments"], muted=request["mute"]
    )
    return replace(found, generation=generation, sequence=sequence, satisfied_at=now, submission=submission)


def backfill_record(row: BackfillRow) -> BackfillRecord:
    """A backfill from its row."""
    name, schedule, request, state, reason, *counts = row[:11]
    return BackfillRecord(
        name,
        ScheduleRef.parse(schedule),
        request,
        BackfillState(state),
        reason,
        BackfillCounts(*counts),
        row.created_at,
        row.changed_at,
        row.ended_at,
    )


async def change_state(
    connection: Connection, current: BackfillRecord, fact: BackfillFact, reason: str, now: datetime
) -> BackfillRecord:
    """Makes a transition of a locked backfill; its jobs that wait for constraints follow."""
    state = BACKFILL_STATES.advance(current.state, fact)
    held = f"backfill {current.id} is paused"
    match fact:
        case BackfillFact.PAUSED:
            command = JobCommand.HOLD, held, None, "hold"
        case BackfillFact.RESUMED:
            command = None, None, held, "release"
        case BackfillFact.CANCELLED:
            command = JobCommand.CANCEL, f"backfill {current.id} was cancelled", None, "cancel"
        case BackfillFact.EXHAUSTED:
            command = None
        case _:
            assert_never(fact)
    if command is not None:
        order, why, formerly, action = command
        await connection.execute(_SQL["lock_program"], str(current.schedule))
        await connection.execute(_SQL["command"], current.id, order, why, formerly, now, f"job.{action}_ordered")
    ended_at = now if state.is_terminal else None
    action = f"backfill.{state.lower()}" if fact is not BackfillFact.RESUMED else "backfill.resumed"
    return backfill_record(await _CHANGE.fetch_one(connection, current.id, state, reason, now, ended_at, action))


def _check_size(request: BackfillRequest, chosen: _Chosen) -> None:
    count = len(chosen.items)
    if not count:
        raise InvalidError("$.only", f"is {request.only}: none of {chosen.skipped} jobs of the span is left to make")
    if count > UNCONFIRMED and not request.confirmed:
        raise InvalidError(
            "$.confirmed",
            f"is missing: the backfill would make {count} jobs, more than {UNCONFIRMED}; set it (`--yes`) to make them",
        )


def _encode_items(request: BackfillRequest, chosen: _Chosen, now: datetime) -> list[tuple[int, str]]:
    return [
        (number, launch.encode(item.ready_job(request.schedule, chosen.generation, request.id, number, now)).decode())
        for number, item in enumerate(chosen.items, start=1)
    ]


def _run_state(state: str | None) -> RunState | None:
    return None if state is None else RunState(state)

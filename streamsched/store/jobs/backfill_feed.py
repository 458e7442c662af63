"""Makes jobs of the items of backfills."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import structlog

from streamsched.codec.records import launch
from streamsched.domain.backfills.backfill import BackfillCounts, BackfillFact, BackfillState, ItemState, item_state
from streamsched.domain.backfills.request import DEFAULT_FAILURES
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.job import JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.submission import backfill_job_id
from streamsched.domain.limits import add_duration
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.jobs.backfills import BackfillRecord, BackfillRow, backfill_record, change_state, job_of_item
from streamsched.store.jobs.submissions import current_schedule, insert
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL: Final = queries("jobs/backfills")
#: Between the satisfactions of jobs made together, so that they start in the order of their backfill.
_STEP: Final = timedelta(microseconds=1)


class Item(NamedTuple):
    """An item by its backfill and number."""

    backfill: str
    number: int


class _JobOfItem(NamedTuple):
    backfill: str
    number: int
    state: str | None
    run: str | None


class _ArchivedJob(NamedTuple):
    id: str
    state: str
    run: str | None


class _NextItem(NamedTuple):
    backfill: str
    number: int
    ready: str


class _Failing(NamedTuple):
    id: str
    last: int


_TO_FEED: Final = Select(_SQL["to_feed"], BackfillRow)
_ENDED: Final = Select(_SQL["ended"], _JobOfItem)
_ENDED_BEFORE: Final = Select(_SQL["ended_before"], _ArchivedJob)
_FAILING: Final = Select(_SQL["failing"], _Failing)
_NEXT_OLDEST: Final = Select(_SQL["next_oldest"], _NextItem)
_NEXT_NEWEST: Final = Select(_SQL["next_newest"], _NextItem)


class BackfillFeed:
    """Makes jobs of the items of backfills."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def feed(self, *, now: datetime, limit: int) -> int | None:
        """Records which jobs of up to `limit` backfills have ended, and makes their next jobs, up to `max_active` each,
        in one transaction. Returns how many jobs it made or found ended; None when no backfill is running or has active
        jobs. Idempotent: the id of a job is a function of backfill and item.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _TO_FEED.fetch(connection, limit)
                if not rows:
                    return 0 if await connection.fetchval(_SQL["any_to_feed"]) else None
                return await _feed(connection, rows, now, full=len(rows) == limit)

    async def forget(self, *, before: datetime) -> int:
        """Deletes backfills that ended before then, a bounded number; returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            status = await self._pool.execute(_SQL["forget"], before)
        return int(status.rpartition(" ")[2])


async def _feed(connection: Connection, rows: Sequence[BackfillRow], now: datetime, *, full: bool) -> int:
    """Feeds these locked backfills. `full`: there may be others, so the time of this check is stored."""
    known = {row.id: backfill_record(row) for row in rows}
    ended = await _ended_items(connection, list(known))
    counts = {name: each.counts for name, each in known.items()}
    for item, state in ended.items():
        counts[item.backfill] = counts[item.backfill].with_item(state, former=ItemState.ACTIVE)
    made = dict[Item, ItemState]()
    for schedule in sorted({each.schedule for each in known.values() if each.state is BackfillState.RUNNING}):
        own = [row for row in rows if row.schedule == str(schedule) and row.state == BackfillState.RUNNING]
        try:
            current = await current_schedule(connection, schedule)
        except (ConflictError, NotFoundError) as refusal:
            for row in own:
                known[row.id] = await _stop(connection, known[row.id], refusal, now)
            continue
        if current.draining:  # the backfill goes on when the schedule is resumed
            continue
        readies: list[ReadyJob] = []
        for row in await _next_items(connection, own, counts):
            item = Item(*row[:2])
            try:
                found = launch.decode(row.ready)
            except Exception:  # noqa: BLE001 - a row may hold anything; the other items go on
                made[item] = ItemState.DROPPED
                continue
            made[item] = ItemState.ACTIVE
            request = known[item.backfill].request
            at = add_duration(now, len(made) * _STEP)
            readies.append(job_of_item(found, request, current.generation, current.sequence, at))
        await insert(connection, ((ready, current.program) for ready in readies), now)
    for item, state in made.items():
        counts[item.backfill] = counts[item.backfill].with_item(state)
    await _store(connection, {**ended, **made})
    if full or ended or made:
        columns = zip(*((n, c.active, c.succeeded, c.failed, c.dropped) for n, c in counts.items()), strict=True)
        await connection.execute(_SQL["set_counts"], now, *(list(column) for column in columns))
    for name, each in known.items():
        if not each.state.is_terminal and counts[name].ended == counts[name].items:
            known[name] = await change_state(connection, each, BackfillFact.EXHAUSTED, "", now)
    failed = {item.backfill for item, state in ended.items() if state is ItemState.FAILED}
    await _pause_failing(connection, [known[name] for name in failed], now)
    return len(ended) + len(made)


async def _pause_failing(connection: Connection, backfills: Sequence[BackfillRecord], now: datetime) -> None:
    """Pauses those of these running backfills of which too many jobs in a row have failed."""
    limits = {
        each.id: most
        for each in backfills
        if each.state is BackfillState.RUNNING and (most := each.request.get("maxFailures", DEFAULT_FAILURES))
    }
    running = {each.id: each for each in backfills}
    for row in await _FAILING.fetch(connection, list(limits), list(limits.values())) if limits else ():
        most = limits[row.id]
        failures = "a job" if most == 1 else f"{most} jobs in a row"
        why = f"{failures} failed, the last is job {row.last}; resume or cancel it"
        await change_state(connection, running[row.id], BackfillFact.PAUSED, why, now)
        log.warning("backfill.paused", backfill=row.id, reason=why)


async def _stop(
    connection: Connection, backfill: BackfillRecord, refusal: ConflictError | NotFoundError, now: datetime
) -> BackfillRecord:
    """A running backfill whose schedule takes no jobs: paused, or cancelled when the schedule was deleted."""
    if isinstance(refusal, NotFoundError):
        return await change_state(connection, backfill, BackfillFact.CANCELLED, "its schedule was deleted", now)
    why = "its schedule is disabled; enable it, then resume the backfill"
    return await change_state(connection, backfill, BackfillFact.PAUSED, why, now)


async def _ended_items(connection: Connection, backfills: Sequence[str]) -> Mapping[Item, ItemState]:
    """The active items whose job has ended with all its runs."""
    rows = await _ENDED.fetch(connection, backfills)
    found = {Item(*row[:2]): _item_state(row.state, row.run) for row in rows if row.state is not None}
    gone = {backfill_job_id(*row[:2]): Item(*row[:2]) for row in rows if row.state is None}
    if gone:
        moved = {row.id: row for row in await _ENDED_BEFORE.fetch(connection, list(gone))}
        for job, item in gone.items():
            found[item] = _item_state(*moved[job][1:]) if job in moved else ItemState.DROPPED
    return {item: state for item, state in found.items() if state is not ItemState.ACTIVE}


def _item_state(job: str, last_run: str | None) -> ItemState:
    return item_state(JobState(job), None if last_run is None else RunState(last_run))


async def _next_items(
    connection: Connection, rows: Iterable[BackfillRow], counts: Mapping[str, BackfillCounts]
) -> Sequence[_NextItem]:
    """The next items of these backfills, as many as each has room for."""
    rooms = defaultdict[bool, dict[str, int]](dict)
    for row in rows:
        room = min(row.max_active - counts[row.id].active, counts[row.id].waiting)
        if room > 0:
            rooms[row.newest_first][row.id] = room
    found: list[_NextItem] = []
    for newest, room in rooms.items():
        select = _NEXT_NEWEST if newest else _NEXT_OLDEST
        found += await select.fetch(connection, list(room), list(room.values()))
    return found


async def _store(connection: Connection, states: Mapping[Item, ItemState]) -> None:
    if states:
        rows = [(*item, state) for item, state in states.items()]
        await connection.execute(_SQL["set_items"], *(list(column) for column in zip(*rows, strict=True)))

"""Timers: the next tick of each time leaf of each enabled schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

import structlog

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.codec.schedules import policy as policies
from streamsched.codec.triggers import trigger as triggers
from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import ScheduleRef
from streamsched.domain.quarantine import Quarantine
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.ticks.misfire import COUNTED, CaughtUp, choose_catch_up
from streamsched.domain.ticks.review import MovedTick
from streamsched.domain.ticks.since_last_run import NO_RUN, RunActivity
from streamsched.domain.triggers.trigger import At, Cron, Every, SinceLastRun, TickingLeaf, Trigger, leaf_id, leaves
from streamsched.ports.timers import DueTimer, Firing
from streamsched.store.catalog import outbox
from streamsched.store.catalog.history import record, record_all
from streamsched.store.catalog.last_runs import last_runs_of
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.expected_time import ExpectedTime, expected_parameter
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL = queries("events/timers")

#: Triggers and policies whose decoded form is cached, by their text; an entry is about a kilobyte.
_CACHED: Final = 4096

_Decided = Sequence[tuple[DueTimer, Firing]]


class TicksReview(NamedTuple):
    """By which rules of zones, and after which judgement about the clock, stored ticks were reviewed.

    Attributes:
        tzdata: the release of IANA's data.
        judgement: the number of the judgement; 0: there was none.
    """

    tzdata: str
    judgement: int


class ReviewedPage(NamedTuple):
    """A page of timers that were reviewed; `last`: the schedule and leaf of the last one, None after all."""

    last: tuple[str, str] | None
    moved: int


class _TimerRow(NamedTuple):
    schedule: str
    leaf: str
    generation: int
    due_at: datetime
    tick_at: datetime | None
    created_at: datetime
    trigger: str
    misfire: str
    catch_up: str | None
    overlap: str
    affinity: int | None


_CLAIM: Final = Select(_SQL["claim"], _TimerRow)
_PAGE: Final = Select(_SQL["page"], _TimerRow)
_LAST_REVIEW: Final = Select(_SQL["last_review"], TicksReview)


class PostgresTimers:
    """`ports.timers.TimerStore` on PostgreSQL. One process at a time reviews the timers (`domain.ticks.review`). Rows
    are claimed by their locks, so a claim ends with its transaction.

    Timers that raise (an unreadable schedule, an arithmetic overflow) do not delay others: the failure is written to
    the schedule's history, and they are retried at growing intervals. With `theirs` nothing is due while PostgreSQL's
    clock says something else: a process whose clocks are wrong fires nothing early.
    """

    def __init__(self, pool: Pool, *, theirs: ExpectedTime | None = None) -> None:
        self._pool = pool
        self._theirs = theirs
        self._failed: Quarantine[str] = Quarantine()
        self._held: list[str] = []

    async def fire(self, *, now: datetime, limit: int, decide: Callable[[DueTimer], Firing]) -> int:
        """Decides about up to `limit` due timers, those due longest first, in one transaction; returns how many. When
        one fails, the others fire and it is put off.
        """
        self._held = self._failed.held_keys(now)
        try:
            return await self._fire(now, limit, decide)
        except SYSTEMIC:
            raise
        except Exception as failure:
            if limit == 1:
                raise
            log.warning("timers.batch_failed", reason=describe_failure(failure))
        fired = 0
        for _ in range(limit):  # one by one, to quarantine the one that cannot be stored
            claimed: list[_TimerRow] = []
            try:
                found = await self._fire(now, 1, decide, claimed)
            except SYSTEMIC:
                raise
            except Exception as failure:
                if not claimed:
                    raise
                async with self._pool.acquire() as connection:
                    await self._quarantine(connection, claimed[0], failure, now)
                found = 1
            if not found:
                break
            fired += found
        return fired

    async def _fire(
        self, now: datetime, limit: int, decide: Callable[[DueTimer], Firing], claimed: list[_TimerRow] | None = None
    ) -> int:
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _CLAIM.fetch(connection, now, limit, self._held, expected_parameter(self._theirs))
                if claimed is not None:
                    claimed += rows
                last_runs = await last_runs_of(connection, [(row.schedule, row.leaf, now) for row in rows])
                decided: list[tuple[DueTimer, Firing]] = []
                for row in rows:
                    try:
                        timer = _due_timer(row, last_runs)
                        decided.append((timer, decide(timer)))
                    except SYSTEMIC:
                        raise
                    except Exception as failure:  # noqa: BLE001 - as above
                        await self._quarantine(connection, row, failure, now)
                if decided:
                    await _store(connection, decided, now)
                return len(rows)

    async def next_due_at(self) -> datetime | None:
        """The earliest due time of all timers; None without any."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["next_due"], self._held)

    async def review(
        self,
        behind: tuple[str, str],
        *,
        now: datetime,
        limit: int,
        decide: Callable[[DueTimer, datetime], MovedTick | None],
    ) -> ReviewedPage:
        """Moves up to `limit` timers after a schedule and leaf to what `decide` says, with a line in the history of the
        schedule; without those that another instance has locked or that cannot be read.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call it again.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _PAGE.fetch(connection, *behind, limit)
                moved: list[tuple[DueTimer, MovedTick]] = []
                for row in rows:
                    try:
                        timer = _due_timer(row, {})
                        found = decide(timer, now)
                    except SYSTEMIC:
                        raise
                    except Exception as failure:  # noqa: BLE001 - as in `fire`, which sets it apart when it is due
                        log.warning("timer.not_reviewed", schedule=row.schedule, reason=describe_failure(failure))
                    else:
                        moved += [] if found is None else [(timer, found)]
                if moved:
                    ticks = [(str(timer.schedule), timer.leaf_id, timer.tick_at, at) for timer, (at, _) in moved]
                    await connection.execute(_SQL["advance"], *zip(*ticks, strict=True))
                    await record_all(connection, [_moved_line(timer, found, now) for timer, found in moved])
                    await connection.execute(_SQL["notify"])
        last = rows[-1][:2] if len(rows) == limit else None
        return ReviewedPage(last, len(moved))

    async def last_review(self) -> TicksReview | None:
        """The last complete review; None: there was none.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            return await _LAST_REVIEW.fetchrow(self._pool)

    async def note_review(self, review: TicksReview, *, now: datetime) -> None:
        """Stores that a review is complete.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            await self._pool.execute(_SQL["note_review"], review.tzdata, review.judgement, now)

    async def _quarantine(self, connection: Connection, row: _TimerRow, failure: Exception, now: datetime) -> None:
        """Skips all timers of the definition for a while, and writes that to its history."""
        name = f"{row.schedule}.{row.generation}"
        if name in self._held:
            return
        retry_at = self._failed.add(name, now)
        self._held.append(name)
        cause = describe_failure(failure)
        log.error("timer.failed", schedule=row.schedule, generation=row.generation, reason=cause)
        reason = f"its ticks cannot be planned: {cause}; the next attempt is at {retry_at:%Y-%m-%d %H:%M:%S}Z"
        await record(connection, "schedule", row.schedule, "ticks_failed", reason, at=now)


async def _store(connection: Connection, decided: _Decided, now: datetime) -> None:
    next_ticks = [
        (str(timer.schedule), timer.leaf_id, firing.tick_at, firing.next_at)
        for timer, firing in decided
        if firing.next_at is not None
    ]
    if next_ticks:
        await connection.execute(_SQL["advance"], *zip(*next_ticks, strict=True))
    ended = [(str(t.schedule), t.leaf_id) for t, firing in decided if firing.next_at is None]
    if ended:
        await connection.execute(_SQL["finish"], *zip(*ended, strict=True))
    await outbox.copy(connection, [record for _, firing in decided for record in firing.records])
    await record_all(connection, list(_history(decided, now)))


def _history(decided: _Decided, now: datetime) -> Iterator[HistoryEntry]:
    for timer, firing in decided:
        if firing.joined:
            action, reason = _joined_text(timer.caught_up, firing.joined)
            what = "joined" if action == "ticks_joined" else "skipped"
            detail = {"leaf": timer.leaf_id, what: firing.joined, "fired": len(firing.records)}
            yield HistoryEntry(now, "schedule", str(timer.schedule), action, reason, detail)
        if firing.skipped:
            detail = {"leaf": timer.leaf_id, "skipped": firing.skipped, "fired": len(firing.records)}
            many = f"at least {COUNTED}" if firing.skipped == COUNTED else firing.skipped
            reason = f"{many} missed ticks were skipped, as misfire '{timer.misfire}' and its catch-up say"
            yield HistoryEntry(now, "schedule", str(timer.schedule), "ticks_skipped", reason, detail)


def _joined_text(caught_up: CaughtUp, ticks: int) -> tuple[str, str]:
    """What became of missed ticks that make no job of their own."""
    many = "1 missed tick" if ticks == 1 else f"{ticks} missed ticks"
    match caught_up:
        case CaughtUp.TOGETHER:
            return "ticks_joined", f"{many} joined the job of the newest, as overlap says"
        case CaughtUp.NEWEST:
            return "ticks_skipped", f"{many} gave way to the newest, as overlap says"
        case CaughtUp.EACH:
            raise ValueError("each has a job of its own")
        case _:
            assert_never(caught_up)


def _moved_line(timer: DueTimer, moved: MovedTick, now: datetime) -> HistoryEntry:
    before, after = (f"{at:%Y-%m-%d %H:%M:%S}Z" for at in (timer.due_at, moved.due_at))
    reason = f"its next tick is set from {before} to {after}: {moved.why}"
    return HistoryEntry(now, "schedule", str(timer.schedule), "tick_moved", reason, {"leaf": timer.leaf_id})


def _due_timer(row: _TimerRow, last_runs: Mapping[tuple[str, str], RunActivity]) -> DueTimer:
    schedule, leaf, generation, due_at, tick_at, created_at, trigger, misfire, catch_up, overlap, affinity = row
    policy, bounds, overlapping = _policy(misfire, catch_up, overlap)
    tree, ticking = _time_leaves(trigger)
    found, jobs = ticking.get(leaf), CaughtUp.EACH
    if policy is Misfire.ALL and isinstance(found, Cron | Every):
        jobs = choose_catch_up(tree, found, overlapping, bounds)
    return DueTimer(
        ScheduleRef.parse(schedule),
        generation,
        leaf,
        found,
        policy,
        due_at,
        created_at,
        bounds,
        tick_at,
        last_runs.get((schedule, leaf), NO_RUN),
        jobs,
        affinity,
    )


@lru_cache(_CACHED)
def _time_leaves(trigger: str) -> tuple[Trigger, Mapping[str, TickingLeaf]]:
    """A trigger, and its leaves that tick by leaf id.

    Raises:
        InvalidError: this release cannot read it.
    """
    found = triggers.from_json(loads(trigger, "$.trigger"), "$.trigger")
    ticking = {leaf_id(leaf): leaf for leaf in leaves(found) if isinstance(leaf, Cron | Every | At | SinceLastRun)}
    return found, ticking


@lru_cache(_CACHED)
def _policy(misfire: str, catch_up: str | None, overlap: str) -> tuple[Misfire, CatchUp, Overlap]:
    """The policies of misfire, catch-up and overlap.

    Raises:
        InvalidError: this release cannot read it.
    """
    bounds = {} if catch_up is None else {"catchUp": loads(catch_up, "$.catchUp")}
    document = {"misfire": misfire, "overlap": overlap, **bounds}
    found = policies.read(Fields(document, "$"))
    return found.get("misfire", Misfire.ONE), found.get("catch_up", UNBOUNDED), found.get("overlap", Overlap.COALESCE)

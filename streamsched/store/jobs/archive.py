"""The history of ended jobs and runs: tables partitioned by time, filled in batches; old partitions are dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.domain.decisions.retention import TimePartition, looks_back
from streamsched.log.topics import LAUNCH
from streamsched.store import audit
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/archive")


class ArchiveCursor(NamedTuple):
    """A cursor in a walk through ended rows: the row before the next."""

    created_at: datetime
    id: str


_BEGINNING: Final = ArchiveCursor(datetime.min.replace(tzinfo=UTC), "")


@dataclass(frozen=True, slots=True)
class EndedRows:
    """Ended jobs, or ended manual runs, with the time of the last end in each: of the job and its runs (UTC)."""

    done_at: Mapping[str, datetime]
    last: ArchiveCursor | None = None


class EarlyRow(NamedTuple):
    """Rows that were written before their partition existed: an instant of the missing partition."""

    table: str
    at: datetime


class _EndedRow(NamedTuple):
    id: str
    created_at: datetime
    done_at: datetime


class _DeletedSchedule(NamedTuple):
    id: str
    app: str


_DELETED_SCHEDULES: Final = Select(_SQL["deleted_schedules"], _DeletedSchedule)
_PICK_JOBS: Final = Select(_SQL["pick_jobs"], _EndedRow)
_PICK_RUNS: Final = Select(_SQL["pick_runs"], _EndedRow)
_EARLY: Final = Select(_SQL["early"], EarlyRow)


class Archive:
    """Several processes may call it at a time. Each call is one or more short transactions. All raise
    `UnavailableError` when PostgreSQL is unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._existing: set[tuple[str, TimePartition]] = set()

    async def lookback(self) -> timedelta:
        """How long ended runs matter to the constraints of schedules; the longest.

        Raises:
            InvalidError: this release cannot read a constraint.
        """
        with translate_errors():
            rows = await self._pool.fetch(_SQL["lookback"])
        return max((looks_back(constraint_codec.from_json(row["each"])) for row in rows), default=timedelta(0))

    async def dedupe(self) -> timedelta:
        """How long ended tasks are needed to recognise repeats; the longest of all queues."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["dedupe"])

    async def ended_jobs(self, before: datetime, *, behind: ArchiveCursor | None, limit: int) -> EndedRows:
        """The next jobs that ended before then with all their runs, in order of creation, after the cursor."""
        with translate_errors():
            return _ended_rows(await _PICK_JOBS.fetch(self._pool, before, *(behind or _BEGINNING), limit))

    async def ended_runs(self, before: datetime, *, behind: ArchiveCursor | None, limit: int) -> EndedRows:
        """The same of manual runs."""
        with translate_errors():
            return _ended_rows(await _PICK_RUNS.fetch(self._pool, before, *(behind or _BEGINNING), limit))

    async def move_jobs(self, ended: EndedRows, *, keep_from: datetime) -> int:
        """Moves them to the history with their runs and the jobs coalesced into them; those done before `keep_from` are
        deleted. Their partitions must exist. From then on a repeat of their satisfaction from the log makes no new job
        (promise G3). Returns how many were moved or deleted.
        """
        jobs, done = list(ended.done_at), list(ended.done_at.values())
        with translate_errors():
            await self._pool.execute(_SQL["mark_archived"], jobs)
            await self._pool.execute(_SQL["wait_for_older_intakes"], LAUNCH)
            return await self._pool.fetchval(_SQL["move_jobs"], jobs, done, keep_from)

    async def move_runs(self, ended: EndedRows, *, keep_from: datetime) -> int:
        """The same of manual runs."""
        with translate_errors():
            return await self._pool.fetchval(
                _SQL["move_runs"], list(ended.done_at), list(ended.done_at.values()), keep_from
            )

    async def forget_schedules(self, before: datetime, *, limit: int) -> int:
        """Deletes what is stored of schedules that were deleted before then and have no live job: their tombstones,
        versions, how far their jobs had been archived, and their counts of verdicts, whose sums stay. Returns how many
        were found, at most `limit`: call again while that many were.

        Nothing that exactness needs is lost when `before` is further back than the log keeps records. A name that is
        used again gets generations above all it ever had (`apps.forgotten_generation`), so no job has an id twice and
        no record of former times counts for it. A satisfaction of a forgotten schedule that came again all the same
        would find no schedule, or one of a later generation: it makes an obsolete job and no run.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _DELETED_SCHEDULES.fetch(connection, before, limit)
                if rows:
                    await connection.execute(_SQL["lock_apps"], sorted({row.app for row in rows}))
                    await connection.execute(_SQL["forget_schedules"], [row.id for row in rows], before)
        return len(rows)

    async def forget_audit(self, before: datetime, *, limit: int, now: datetime) -> int:
        """Deletes the oldest entries of the audit that are older than `before`, at most `limit`; an entry says so.
        Returns how many.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                return await audit.forget(connection, before, limit=limit, now=now)

    async def known_runs(self, runs: Sequence[str]) -> Collection[str]:
        """Those of the runs that exist, live or in the history."""
        with translate_errors():
            return {row["id"] for row in await self._pool.fetch(_SQL["known_runs"], runs)}

    async def active_runs(self, runs: Sequence[str]) -> Collection[str]:
        """Those of the runs that have not ended."""
        with translate_errors():
            return {row["id"] for row in await self._pool.fetch(_SQL["active_runs"], runs)}

    async def early_rows(self) -> Sequence[EarlyRow]:
        """Rows written before their partition existed: one for each missing partition."""
        with translate_errors():
            return await _EARLY.fetch(self._pool)

    async def make(self, table: str, part: TimePartition) -> None:
        """Creates a partition and moves `early_rows` into it. Idempotent."""
        if (table, part) not in self._existing:
            with translate_errors():
                await self._pool.execute(_SQL["make_part"], table, *part)
            self._existing.add((table, part))

    async def drop(self, table: str, *, before: datetime) -> int:
        """Drops the partitions that ended by then, the oldest first; one that stays locked is left to the next call.
        Returns how many were dropped.
        """
        dropped = 0
        with translate_errors():
            while await self._pool.fetchval(_SQL["drop_part"], table, before):
                dropped += 1
        if dropped:
            self._existing = {(name, part) for name, part in self._existing if name != table or part.ends > before}
        return dropped


def _ended_rows(rows: Sequence[_EndedRow]) -> EndedRows:
    last = ArchiveCursor(rows[-1].created_at, rows[-1].id) if rows else None
    return EndedRows({row.id: row.done_at for row in rows}, last)

"""`ports.verdicts.VerdictStore` on PostgreSQL: a table with a partition for each day, filled by COPY."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, assert_never

import asyncpg

from streamsched.domain.events.lateness import OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, FindingReason, NoListener, Undecodable
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.ports.verdicts import Page
from streamsched.store.connections import translated
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import queries

_SQL: Final = queries("events/verdicts")

_COLUMNS: Final = (
    "at",
    "event",
    "source",
    "verdict",
    "subject",
    "generation",
    "next_job",
    "leaves",
    "cells",
    "late",
    "since",
    "path",
    "reason",
    "why",
)


class PostgresVerdicts(StoredPositions):
    """See `ports.verdicts.VerdictStore`."""

    def __init__(self, pool: asyncpg.Pool, *, keep: timedelta) -> None:
        """`keep`: findings older than that are not stored."""
        super().__init__(pool)
        self._keep = keep
        self._days: frozenset[date] = frozenset()

    async def take(self, topic: str, batches: Sequence[IntakeBatch[Page]], *, now: datetime) -> IntakeResult:
        oldest = now - self._keep
        rows = {
            batch.partition: [_row(finding) for page in batch.rows for finding in page if finding.at >= oldest]
            for batch in batches
        }
        with translated():
            await self._make_days(rows.values())
            async with self._pool.acquire() as connection, connection.transaction():
                moved = await connection.fetch(
                    _SQL["move"],
                    topic,
                    [batch.partition for batch in batches],
                    [batch.start for batch in batches],
                    [batch.next for batch in batches],
                )
                taken = frozenset(row["partition"] for row in moved)
                stored = [row for partition in taken for row in rows[partition]]
                if stored:
                    await connection.copy_records_to_table("verdicts", records=stored, columns=_COLUMNS)
                    await connection.execute(_SQL["count"], *_totals(stored))
        return IntakeResult(taken, len(stored), 0)

    async def forget(self, *, before: datetime) -> int:
        with translated():
            dropped: int = await self._pool.fetchval(_SQL["drop_days"], before.date())
        return dropped

    async def _make_days(self, partitions: Iterable[Sequence[tuple[Any, ...]]]) -> None:
        days = frozenset(row[0].date() for rows in partitions for row in rows)
        if not days <= self._days:
            await self._pool.execute(_SQL["make_days"], sorted(days))
            self._days = days


def _row(finding: Finding) -> tuple[Any, ...]:
    """In the order of `_COLUMNS`."""
    head = finding.at, finding.event, finding.source, finding.verdict.value
    match finding.reason:
        case AtSchedule(schedule=ref, generation=generation, next_job=number, judged=judged, late=late):
            leaves, cells = (list(map(_text, named)) or None for named in (judged.leaves, judged.cells))
            policy = None if late is None else late.value
            why = _text(judged.why) or None
            return *head, str(ref), generation, number, leaves, cells, policy, finding.since, None, None, why
        case Duplicate(key=key) | NoListener(key=key):
            return *head, _text(key), None, None, None, None, None, finding.since, None, None, None
        case Undecodable(place=place, path=path, reason=reason):
            return *head, place, None, None, None, None, None, finding.since, _text(path), _text(reason), None
        case _:
            assert_never(finding.reason)


def finding(row: Any) -> Finding:
    """A row of `verdicts`."""
    return Finding(row["event"], row["source"], row["at"], _reason(row), row["since"])


def _reason(row: Any) -> FindingReason:
    verdict, subject = Verdict(row["verdict"]), row["subject"]
    match verdict:
        case (
            Verdict.COUNTED
            | Verdict.REPLACED
            | Verdict.CORRECTION
            | Verdict.UNMATCHED
            | Verdict.LATE
            | Verdict.DISABLED
            | Verdict.REFUSED
            | Verdict.PARKED
        ):
            judged = JudgedEvent(verdict, tuple(row["leaves"] or ()), tuple(row["cells"] or ()), row["why"] or "")
            late = None if row["late"] is None else OnLate(row["late"])
            return AtSchedule(ScheduleRef.parse(subject), row["generation"], row["next_job"], judged, late)
        case Verdict.DUPLICATE:
            return Duplicate(subject)
        case Verdict.NO_LISTENER:
            return NoListener(subject)
        case Verdict.DEAD_LETTERED:
            return Undecodable(subject, row["path"], row["reason"])
        case _:
            assert_never(verdict)


def _totals(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    """The number of rows and the newest time for each schedule (or none), verdict and policy."""
    found: dict[tuple[str, str, str], tuple[int, datetime]] = {}
    for at, _, _, verdict, subject, generation, _, _, _, late, *_ in rows:
        key = subject if generation is not None else "", verdict, late or ""
        total, newest = found.get(key, (0, at))
        found[key] = total + 1, max(newest, at)
    return tuple(list(column) for column in zip(*((*key, *count) for key, count in found.items()), strict=True))


def _text(text: str) -> str:
    """PostgreSQL stores any character but NUL."""
    return text.replace("\0", "\ufffd")

"""The stored copy of topic `verdicts`: a table partitioned by time, filled by COPY."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, assert_never

from streamsched.domain.decisions.retention import TimePartition, part_of
from streamsched.domain.events.lateness import OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, FindingReason, NoListener, Undecodable
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import queries

_SQL: Final = queries("events/verdicts")

#: The findings of one record.
Page = Sequence[Finding]


class FindingRow(NamedTuple):
    """A row of `verdicts`."""

    at: datetime
    event: str
    source: str
    verdict: str
    subject: str
    generation: int | None
    next_job: int | None
    leaves: list[str] | None
    cells: list[str] | None
    late: str | None
    since: datetime | None
    path: str | None
    reason: str | None
    why: str | None


class VerdictStore(StoredPositions):
    """Stores pages for a limited time: `ports.intake.IntakeStore[Page]`."""

    def __init__(self, pool: Pool, *, keep: timedelta) -> None:
        """`keep`: findings older than that are not stored."""
        super().__init__(pool)
        self._keep = keep
        self._parts: frozenset[TimePartition] = frozenset()

    async def take(self, topic: str, batches: Sequence[IntakeBatch[Page]], *, now: datetime) -> IntakeResult:
        """Stores findings with the positions after them, in one transaction; those that are too old are dropped."""
        oldest = now - self._keep
        rows = {
            batch.partition: [_row(finding) for page in batch.rows for finding in page if finding.at >= oldest]
            for batch in batches
        }
        with translate_errors():
            await self._make_parts(rows.values())
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
                    await connection.copy_records_to_table("verdicts", records=stored, columns=FindingRow._fields)
                    await connection.execute(_SQL["count"], *_totals(stored))
        return IntakeResult(taken, len(stored), 0)

    async def forget(self, *, before: datetime) -> int:
        """Drops the partitions that ended by then, the oldest first, up to one that is in use; returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        dropped = 0
        with translate_errors():
            while await self._pool.fetchval(_SQL["drop_part"], before):
                dropped += 1
        return dropped

    async def _make_parts(self, partitions: Iterable[Sequence[FindingRow]]) -> None:
        parts = frozenset(part_of(row.at, self._keep) for rows in partitions for row in rows)
        if not parts <= self._parts:
            await self._pool.execute(_SQL["make_parts"], *map(list, zip(*parts, strict=True)))
            self._parts = parts


def _row(finding: Finding) -> FindingRow:
    head = finding.at, finding.event, finding.source, finding.verdict.value
    match finding.reason:
        case AtSchedule(schedule=ref, generation=generation, next_job=number, judged=judged, late=late):
            leaves, cells = (list(map(_text, named)) or None for named in (judged.leaves, judged.cells))
            policy = None if late is None else late.value
            why = _text(judged.why) or None
            return FindingRow(
                *head, str(ref), generation, number, leaves, cells, policy, finding.since, None, None, why
            )
        case Duplicate(key=key) | NoListener(key=key):
            return FindingRow(*head, _text(key), None, None, None, None, None, finding.since, None, None, None)
        case Undecodable(place=place, path=path, reason=reason):
            return FindingRow(
                *head, place, None, None, None, None, None, finding.since, _text(path), _text(reason), None
            )
        case _:
            assert_never(finding.reason)


def read_finding(row: FindingRow) -> Finding:
    """The finding of a row."""
    return Finding(row.event, row.source, row.at, _reason(row), row.since)


def _reason(row: FindingRow) -> FindingReason:
    verdict, subject = Verdict(row.verdict), row.subject
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
            judged = JudgedEvent(verdict, tuple(row.leaves or ()), tuple(row.cells or ()), row.why or "")
            late = None if row.late is None else OnLate(row.late)
            assert row.generation is not None
            assert row.next_job is not None
            return AtSchedule(ScheduleRef.parse(subject), row.generation, row.next_job, judged, late)
        case Verdict.DUPLICATE:
            return Duplicate(subject)
        case Verdict.NO_LISTENER:
            return NoListener(subject)
        case Verdict.DEAD_LETTERED:
            return Undecodable(subject, row.path or "", row.reason or "")
        case _:
            assert_never(verdict)


def _totals(rows: Sequence[FindingRow]) -> tuple[list[Any], ...]:
    """The number of rows and the newest time for each schedule (or none), verdict and policy."""
    found: dict[tuple[str, str, str], tuple[int, datetime]] = {}
    for row in rows:
        key = row.subject if row.generation is not None else "", row.verdict, row.late or ""
        total, newest = found.get(key, (0, row.at))
        found[key] = total + 1, max(newest, row.at)
    return tuple(list(column) for column in zip(*((*key, *count) for key, count in found.items()), strict=True))


def _text(text: str) -> str:
    """PostgreSQL stores any character but NUL."""
    return text.replace("\0", "\ufffd")

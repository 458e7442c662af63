"""`ports.web.activity_reads.ActivityReads` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

import asyncpg

from streamsched.domain.jobs.run import RunState
from streamsched.domain.signals.finding import KNOWN_BY
from streamsched.domain.signals.verdict import Verdict
from streamsched.ports.web.activity_reads import (
    COUNTED_RUNS,
    LARGEST_CONSUMED,
    ConsumedEvents,
    EventVerdicts,
    MissedDeadline,
    RunDay,
)
from streamsched.ports.web.page_reads import SEARCHED_RUNS
from streamsched.store.connections import translated
from streamsched.store.sql import queries
from streamsched.store.web.page_reads import id_prefix

_SQL: Final = queries("web/activity_reads")


class PostgresActivityReads:
    """See `ports.web.activity_reads.ActivityReads`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def verdicts(self, events: Sequence[str]) -> Sequence[EventVerdicts]:
        with translated():
            rows = await self._pool.fetch(_SQL["verdicts"], [each[:KNOWN_BY] for each in events])
        return [EventVerdicts(row["event"], row["source"], Verdict(row["verdict"]), row["number"]) for row in rows]

    async def late(self, schedules: Sequence[str], events: Sequence[str]) -> frozenset[tuple[str, str]]:
        with translated():
            rows = await self._pool.fetch(_SQL["late"], list(schedules), [each[:KNOWN_BY] for each in events])
        return frozenset((row["subject"], row["event"]) for row in rows)

    async def consumed(self, schedule: str, *, limit: int) -> Sequence[ConsumedEvents]:
        with translated():
            rows = await self._pool.fetch(_SQL["consumed"], schedule, limit, LARGEST_CONSUMED)
        return [ConsumedEvents(row["id"], row["ready"]) for row in rows]

    async def run_days(self, *, program: str | None, namespace: str | None, days: Sequence[date]) -> Sequence[RunDay]:
        with translated():
            if program is None:
                rows = await self._pool.fetch(_SQL["run_days"], id_prefix(namespace), list(days), COUNTED_RUNS)
            else:
                rows = await self._pool.fetch(_SQL["run_days_of_program"], program, list(days), COUNTED_RUNS)
        found: dict[date, dict[RunState, int]] = {day: {} for day in days}
        for row in rows:
            found[row["day"]][RunState(row["state"])] = row["count"]
        return [RunDay(day, states) for day, states in found.items()]

    async def missed(self, *, namespace: str | None, limit: int) -> Sequence[MissedDeadline]:
        with translated():
            rows = await self._pool.fetch(_SQL["missed"], id_prefix(namespace), SEARCHED_RUNS, limit)
        return [MissedDeadline(row["id"], tuple(row["missed"]), row["created_at"]) for row in rows]

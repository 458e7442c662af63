"""`ports.web.page_reads.PageReads` on PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import asyncpg

from streamsched.domain.decisions.names_in_reasons import own_names_only
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.ports.web.page_reads import (
    SEARCHED_RUNS,
    DataVersion,
    FailedRun,
    StripEntry,
    WaitingJob,
    WorkCounts,
)
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("web/page_reads")
_DAY: Final = timedelta(days=1)
_STATES: Final = ("enabled", "paused", "disabled", "error")


class PostgresPageReads:
    """See `ports.web.page_reads.PageReads`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def counts(self, *, namespace: str | None, now: datetime) -> WorkCounts:
        with translated():
            row = await self._pool.fetchrow(_SQL["counts"], id_prefix(namespace), now - _DAY, SEARCHED_RUNS)
        assert row is not None
        return WorkCounts(
            running=row["running"],
            ready=row["ready"],
            waiting=row["waiting"],
            ended=row["ended"],
            failed=row["failed"],
            schedules={state: row[state] for state in _STATES},
        )

    async def oldest_waiting(self, *, namespace: str | None, limit: int) -> Sequence[WaitingJob]:
        with translated():
            rows = await self._pool.fetch(_SQL["oldest_waiting"], id_prefix(namespace), limit)
        found = (WaitingJob(*row) for row in rows)
        return [each._replace(reason=own_names_only(each.reason, each.job.partition(".")[0])) for each in found]

    async def recent_failures(self, *, namespace: str | None, limit: int) -> Sequence[FailedRun]:
        with translated():
            rows = await self._pool.fetch(_SQL["recent_failures"], id_prefix(namespace), SEARCHED_RUNS, limit)
        return [
            FailedRun(row["id"], row["program"], RunState(row["state"]), row["reason"] or "", row["ended_at"])
            for row in rows
        ]

    async def search(
        self, *, namespace: str | None, text: str, states: Sequence[str], after: str, limit: int
    ) -> Sequence[str]:
        with translated():
            rows = await self._pool.fetch(
                _SQL["search"], id_prefix(namespace), text.lower(), list(states), after, limit
            )
        return [row["id"] for row in rows]

    async def strips(self, schedules: Sequence[str], *, limit: int) -> Mapping[str, Sequence[StripEntry]]:
        with translated():
            rows = await self._pool.fetch(_SQL["strips"], list(schedules), limit)
        found: defaultdict[str, list[StripEntry]] = defaultdict(list)
        for row in rows:
            found[row["schedule"]].append(
                StripEntry(
                    row["id"],
                    JobState(row["state"]),
                    row["run"],
                    None if row["run_state"] is None else RunState(row["run_state"]),
                    row["created_at"],
                    row["started_at"],
                    row["ended_at"],
                )
            )
        return found

    async def version(self) -> DataVersion:
        with translated():
            row = await self._pool.fetchrow(_SQL["version"])
        assert row is not None
        return row["decisions"], row["copied"]


def id_prefix(namespace: str | None) -> str | None:
    """How the ids of a namespace begin; None: any."""
    return None if namespace is None else f"{namespace}."

"""`ports.schedules.expectations.ExpectationReader` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import structlog

from streamsched.domain.errors import NotFoundError, described
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.ports.schedules.expectations import ExpectationRecord, StoredMiss
from streamsched.store.catalog.expectation_rows import watched_of
from streamsched.store.connections import translated
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL: Final = queries("expectations/records")


class PostgresExpectationReader:
    """See `ports.schedules.expectations.ExpectationReader`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def page(
        self,
        *,
        namespace: str | None = None,
        app: AppRef | None = None,
        missing: bool = False,
        after: str = "",
        limit: int,
    ) -> Sequence[ExpectationRecord]:
        with translated():
            rows = await self._pool.fetch(_SQL["page"], namespace, app and str(app), missing, after, limit)
        return _records(rows)

    async def of_subject(self, kind: SubjectKind, subject: str, *, limit: int) -> Sequence[ExpectationRecord]:
        with translated():
            async with self._pool.acquire() as connection:
                ids = [row["id"] for row in await connection.fetch(_SQL["about"], kind.value, subject, limit)]
                return _records(await connection.fetch(_SQL["some"], ids)) if ids else []

    async def get(self, ref: ExpectationRef) -> ExpectationRecord:
        with translated():
            found = _records(await self._pool.fetch(_SQL["some"], [str(ref)]))
        if not found:
            raise NotFoundError("expectation", str(ref))
        return found[0]

    async def misses(self, ref: ExpectationRef, *, limit: int) -> Sequence[StoredMiss]:
        with translated():
            return [StoredMiss(**row) for row in await self._pool.fetch(_SQL["misses"], str(ref), limit)]


def _records(rows: Sequence[Any]) -> list[ExpectationRecord]:
    found: list[ExpectationRecord] = []
    for row in rows:
        try:
            watched = watched_of(row)
        except Exception as failure:  # noqa: BLE001 - a row may hold anything; the others are listed
            log.error("expectation.unreadable", expectation=row["id"], reason=described(failure))
            continue
        found.append(
            ExpectationRecord(
                watched,
                row["created_at"],
                row["changed_at"],
                row["seen_at"],
                row["open_misses"],
                _last_miss(row),
                row["stopped"] or "",
            )
        )
    return found


def _last_miss(row: Any) -> StoredMiss | None:
    if row["missed_due_at"] is None:
        return None
    return StoredMiss(*(row[f"missed_{name}"] for name in StoredMiss._fields))

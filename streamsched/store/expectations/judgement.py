"""`ports.schedules.expectations.ExpectationStore` on PostgreSQL. A batch is judged in one transaction; when that fails,
each is judged alone, and one that cannot be is set aside for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import asyncpg
import structlog

from streamsched.domain.errors import SYSTEMIC, described
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.limits import later
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.quarantine import Quarantine
from streamsched.ports.schedules.expectations import Judged
from streamsched.store.connections import translated
from streamsched.store.expectations.expectation_turn import ExpectationTurn
from streamsched.store.runs.rows import SQL as RUNS
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL: Final = queries("expectations/judgement")
#: What was logged, or ended, up to a due time can be seen so long after it at the latest.
SETTLES: Final = timedelta(seconds=2)


class _Candidate(NamedTuple):
    """An expectation to judge, with the program that its miss starts."""

    id: str
    program: ProgramRef | None


class PostgresExpectationStore:
    """See `ports.schedules.expectations.ExpectationStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._failed: Quarantine[str] = Quarantine()

    async def judge(self, *, now: datetime, limit: int) -> Judged:
        with translated():
            until = await self._until()
            candidates = await self._candidates(until, limit, self._failed.held(now))
        if not candidates:
            return Judged(0, (), ())
        try:
            return await self._judge(candidates, until, now)
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - one of the rows, which may hold anything
            log.warning("expectations.batch_split", reason=described(failure))
        parts = [await self._judge_alone(each, until, now) for each in candidates]
        misses = [miss for each in parts for miss in each.misses]
        return Judged(sum(each.expectations for each in parts), misses, [came for each in parts for came in each.came])

    async def next_due(self) -> datetime | None:
        with translated():
            found = [await self._pool.fetchval(_SQL["next_due"], kind.value) for kind in SubjectKind]
        return min((due for due in found if due is not None), default=None)

    async def _until(self) -> Mapping[SubjectKind, datetime]:
        """Up to which due times each kind can be judged; a kind of which nothing was read is missing."""
        rows = await self._pool.fetch(_SQL["read_to"])
        return {SubjectKind(row["kind"]): later(row["at"], -SETTLES) for row in rows}

    async def _candidates(
        self, until: Mapping[SubjectKind, datetime], limit: int, held: Sequence[str]
    ) -> Sequence[_Candidate]:
        found: dict[str, _Candidate] = {}
        for row in await self._pool.fetch(_SQL["stirred"], limit, held):
            found[row["id"]] = _Candidate(row["id"], _program(row))
        for kind, at in until.items():
            for row in await self._pool.fetch(_SQL["due"], kind.value, at, limit, held):
                found[row["id"]] = _Candidate(row["id"], _program(row))
        return list(found.values())

    async def _judge_alone(self, candidate: _Candidate, until: Mapping[SubjectKind, datetime], now: datetime) -> Judged:
        try:
            judged = await self._judge([candidate], until, now)
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - its row may hold anything; the other ones are judged
            retry_at = self._failed.add(candidate.id, now)
            log.error("expectation.failed", expectation=candidate.id, reason=described(failure))
            due = f"{retry_at:%Y-%m-%d %H:%M:%S}Z"
            reason = f"it cannot be judged: {described(failure)}; the next attempt is at {due}"
            with translated():
                await self._pool.execute(_SQL["failed"], now, candidate.id, reason)
            return Judged(0, (), ())
        self._failed.release(candidate.id)
        return judged

    async def _judge(
        self, candidates: Sequence[_Candidate], until: Mapping[SubjectKind, datetime], now: datetime
    ) -> Judged:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                programs = sorted({each.program for each in candidates if each.program is not None})
                definitions: dict[ProgramRef, Any] = {
                    ref: await connection.fetchval(RUNS["lock_program"], str(ref)) for ref in programs
                }
                rows = await connection.fetch(_SQL["lock"], [each.id for each in candidates])
                return await ExpectationTurn(connection, rows, definitions, until, now).judged()


def _program(row: Any) -> ProgramRef | None:
    if row["program"] is None:
        return None
    app = AppRef.parse(row["app"])
    return ProgramRef(app.namespace, app.app, row["program"])

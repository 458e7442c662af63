"""The judgement of expectations that are due. A batch is judged in one transaction; when that fails, each is judged
alone, and one that cannot be is set aside for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.limits import add_duration
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.quarantine import Quarantine
from streamsched.store.catalog.app_expectations import ExpectationRow
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.expectations.expectation_turn import ExpectationTurn, Judged
from streamsched.store.runs.rows import SQL as RUNS
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL: Final = queries("expectations/judgement")
#: What was logged, or ended, up to a due time can be seen so long after it at the latest.
SETTLES: Final = timedelta(seconds=2)


class _Due(NamedTuple):
    """An expectation to judge. `program`: the name of the one of its app that its miss starts."""

    id: str
    program: str | None
    app: str

    @property
    def reaction(self) -> ProgramRef | None:
        """The program that its miss starts."""
        app = AppRef.parse(self.app)
        return None if self.program is None else ProgramRef(app.namespace, app.app, self.program)


class _ReadTo(NamedTuple):
    """Up to when all evidence of a kind is stored."""

    kind: str
    at: datetime


_READ_TO: Final = Select(_SQL["read_to"], _ReadTo)
_DUE: Final = Select(_SQL["due"], _Due)
_STIRRED: Final = Select(_SQL["stirred"], _Due)
_LOCKED: Final = Select(_SQL["lock"], ExpectationRow)


class ExpectationStore:
    """Stored expectations. Any number of instances may judge them; each due time is judged once. All methods raise
    `UnavailableError` when PostgreSQL is unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._failed: Quarantine[str] = Quarantine()

    async def judge(self, *, now: datetime, limit: int) -> Judged:
        """Judges expectations that are due, those due longest first, and those for whose misses something came; skips
        those that another instance has locked. What follows (history, event, program) is part of the transaction. A
        due time is judged when all that came up to then is known to have been read.
        """
        with translate_errors():
            until = await self._find_until()
            candidates = await self._find_due(until, limit, self._failed.held_keys(now))
        if not candidates:
            return Judged(0, (), ())
        try:
            return await self._judge(candidates, until, now)
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - one of the rows, which may hold anything
            log.warning("expectations.batch_split", reason=describe_failure(failure))
        parts = [await self._judge_alone(each, until, now) for each in candidates]
        misses = [miss for each in parts for miss in each.misses]
        return Judged(sum(each.expectations for each in parts), misses, [came for each in parts for came in each.came])

    async def next_due_at(self) -> datetime | None:
        """The earliest due time."""
        with translate_errors():
            found = [await self._pool.fetchval(_SQL["next_due"], kind.value) for kind in SubjectKind]
        return min((due for due in found if due is not None), default=None)

    async def _find_until(self) -> Mapping[SubjectKind, datetime]:
        """Up to which due times each kind can be judged; a kind of which nothing was read is missing."""
        rows = await _READ_TO.fetch(self._pool)
        return {SubjectKind(row.kind): add_duration(row.at, -SETTLES) for row in rows}

    async def _find_due(self, until: Mapping[SubjectKind, datetime], limit: int, held: Sequence[str]) -> Sequence[_Due]:
        found = {row.id: row for row in await _STIRRED.fetch(self._pool, limit, held)}
        for kind, at in until.items():
            found |= {row.id: row for row in await _DUE.fetch(self._pool, kind.value, at, limit, held)}
        return list(found.values())

    async def _judge_alone(self, candidate: _Due, until: Mapping[SubjectKind, datetime], now: datetime) -> Judged:
        try:
            judged = await self._judge([candidate], until, now)
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - its row may hold anything; the other ones are judged
            retry_at = self._failed.add(candidate.id, now)
            log.error("expectation.failed", expectation=candidate.id, reason=describe_failure(failure))
            due = f"{retry_at:%Y-%m-%d %H:%M:%S}Z"
            reason = f"it cannot be judged: {describe_failure(failure)}; the next attempt is at {due}"
            with translate_errors():
                await self._pool.execute(_SQL["failed"], now, candidate.id, reason)
            return Judged(0, (), ())
        self._failed.release(candidate.id)
        return judged

    async def _judge(self, candidates: Sequence[_Due], until: Mapping[SubjectKind, datetime], now: datetime) -> Judged:
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                programs = sorted({program for each in candidates if (program := each.reaction) is not None})
                definitions: dict[ProgramRef, Any] = {
                    ref: await connection.fetchval(RUNS["lock_program"], str(ref)) for ref in programs
                }
                rows = await _LOCKED.fetch(connection, [each.id for each in candidates])
                return await ExpectationTurn(connection, rows, definitions, until, now).judge()

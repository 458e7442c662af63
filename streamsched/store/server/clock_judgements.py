"""`ports.clock.ClockJudgements` on PostgreSQL."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import asyncpg

from streamsched.domain.clock_judge import ClockFact, ClockProposal, ClockRecord
from streamsched.ports.clock import ClockState
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("server/clock")


class PostgresClockJudgements:
    """See `ports.clock.ClockJudgements`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def state(self) -> ClockState:
        with translated():
            row = await self._pool.fetchrow(_SQL["measure"])
        assert row is not None
        if row["number"] is None:
            return ClockState(row["theirs"], ClockRecord())
        record = ClockRecord(row["number"], timedelta(seconds=row["ahead_s"]), row["until"])
        return ClockState(row["theirs"], record, ClockFact(row["fact"]), row["at"], row["judged_by"])

    async def judge(self, proposal: ClockProposal, *, theirs: datetime, at: datetime, by: str) -> bool:
        record = proposal.record
        with translated():
            stored = await self._pool.fetchval(
                _SQL["judge"],
                *(record.number, proposal.fact.value, record.ahead.total_seconds(), record.until, at, theirs, by),
            )
        return stored is not None

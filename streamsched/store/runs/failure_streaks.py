"""Detects, in the transaction of a run's end, that too many runs in a row failed. `catalog.resumption` then pauses the
schedule, under its lock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from streamsched.codec.schedules.policy import PAUSE_AFTER
from streamsched.domain.errors import describe_failure
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.retry import OVERDUE
from streamsched.store.connections import Connection
from streamsched.store.runs.rows import StoredRun
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL: Final = queries("runs/failure_streaks")


class _Policy(NamedTuple):
    policy: Any
    updated_at: datetime


_POLICY: Final = Select(_SQL["policy"], _Policy)


async def record_failure(connection: Connection, row: StoredRun, reason: str, *, at: datetime) -> None:
    """Requests a pause when the streak is long enough. `row`: a run that ended without success and
    without a further attempt; its program is locked.
    """
    if row.schedule is None:
        return
    stored = await _POLICY.fetchrow(connection, row.schedule, row.generation)
    if stored is None:
        return
    try:
        policy = PAUSE_AFTER.read(stored.policy)
    except Exception as failure:  # noqa: BLE001 - a row may hold anything; the run ends anyway
        log.error("schedule.policy_unreadable", schedule=row.schedule, reason=describe_failure(failure))
        return
    ends = await connection.fetch(
        _SQL["latest"], row.schedule, row.generation, policy.failures, OVERDUE, stored.updated_at
    )
    if len(ends) < policy.failures or any(each["state"] == RunState.COMPLETED for each in ends):
        return
    pause = policy.pause(row.id, reason, at=at)
    await connection.execute(
        _SQL["request_pause"], row.schedule, row.generation, at, pause.keep, pause.until, pause.note
    )

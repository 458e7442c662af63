"""Schedules, and programs that were started without one, whose latest run failed with its last attempt: what the
history says about the end of a run besides, and that they are well again. Their program is locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.domain.history import HistoryEntry
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.retry import OVERDUE
from streamsched.domain.time.instants import clock
from streamsched.store.catalog.history import record_all
from streamsched.store.connections import Connection
from streamsched.store.runs.rows import LiveRun, StoredRun
from streamsched.store.sql import Select, queries

_SQL: Final = queries("runs/failing")


class _Recovered(NamedTuple):
    owner: str
    since: datetime


_RECOVERED: Final = Select(_SQL["recovered"], _Recovered)


async def note_failure(
    connection: Connection, row: StoredRun, state: RunState, *, at: datetime, last: bool, log_tail: str
) -> Mapping[str, Any] | None:
    """The detail of the line about the end of a run without success: the end of its log, and with its last attempt how
    it failed (`run`, `launch` or `overdue`). One that was stopped on request did not fail.
    """
    overdue = row.stop_requested == OVERDUE
    detail: dict[str, Any] = {"log_tail": log_tail} if log_tail else {}
    if last and (state is not RunState.KILLED or overdue):
        await connection.execute(_SQL["put"], _owner(row), row.id, at)
        detail["failed"] = "overdue" if overdue else "launch" if row.state == RunState.PENDING else "run"
    return detail or None


async def note_recovery(connection: Connection, rows: Sequence[StoredRun | LiveRun], at: datetime) -> None:
    """Writes a line for each schedule or program that failed until now, of runs that have completed."""
    runs = {_owner(row): row.id for row in rows}
    found = await _RECOVERED.fetch(connection, sorted(runs))
    said = [(runs[each.owner], f"it failed since {clock(each.since)}") for each in found]
    await record_all(connection, [HistoryEntry(at, "run", run, "run.recovered", reason) for run, reason in said])


def _owner(row: StoredRun | LiveRun) -> str:
    """What a run counts for: its schedule, or its program when no schedule started it."""
    return row.schedule or f"program {row.program}"

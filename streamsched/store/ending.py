"""What every end of a run brings with it, whoever stores it: the announcement, the history, and who is woken."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from streamsched.codec import event as event_codec
from streamsched.domain.docket import superseded
from streamsched.domain.job import JobFact, JobState
from streamsched.domain.job import advance as advance_job
from streamsched.domain.names import ProgramRef
from streamsched.domain.run import RunFact, RunState, status_event
from streamsched.domain.run import advance as advance_run
from streamsched.store import breaks, groups
from streamsched.store.sql import queries

SQL: Final = queries("runs")


async def locked(connection: Any, run: str) -> Any | None:
    """The run's row with its program's and its own lock held, or None when there is no such run. The program comes
    first, as everywhere; its lock keeps a ruling from overtaking the wake-up of those that wait for this run.
    """
    row = await connection.fetchrow(SQL["state"], run)
    if row is None:
        return None
    await connection.execute(SQL["lock_program"], row["program"])
    await connection.execute(SQL["lock_run"], run)
    return await connection.fetchrow(SQL["state"], run)


async def end(
    connection: Any,
    row: Any,
    fact: RunFact,
    reason: str,
    *,
    at: datetime,
    exit_code: int | None = None,
    announced: bool = True,
) -> RunState:
    """Stores the end of a `locked` run, announces it, frees its slots and wakes who waits for it; returns the state.
    An end that another attempt follows is not `announced` and keeps its slots: it is the same execution that goes on.

    Raises:
        IllegalTransitionError: the run's state forbids it.
    """
    before = RunState(row["state"])
    state = advance_run(before, fact)
    await connection.execute(SQL["end_run"], row["id"], before, state, reason, at, exit_code)
    error = None if state is RunState.COMPLETED else reason
    if announced:
        await announce(connection, row, state, at=at, error=error)
    await record(connection, "run", row["id"], f"run.{state.lower()}", reason, at=at)
    await connection.execute(SQL["wake"], row["program"])
    if announced and state is not RunState.COMPLETED:
        await breaks.notice(connection, row, reason, at=at)
    if announced:
        await groups.free(connection, row["id"])
    return state


async def announce(connection: Any, row: Any, state: RunState, *, at: datetime, error: str | None = None) -> None:
    """Puts the state into the outbox, when it is one that triggers may ask for."""
    program = ProgramRef.parse(row["program"])
    event = status_event(row["id"], program, state, at=at, arguments=row["arguments"], error=error)
    if event is not None:
        await connection.execute(SQL["announce"], event.key, event_codec.encode(event))


async def move_job(connection: Any, row: Any, fact: JobFact, reason: str, *, at: datetime) -> None:
    """The job of a run that waited to be launched goes where `fact` leads; a launched one stays launched."""
    if row["job"] is None or row["job_state"] != JobState.PENDING_LAUNCH:
        return
    state = advance_job(JobState.PENDING_LAUNCH, fact)
    if await connection.fetchval(SQL["job_moves"], row["job"], JobState.PENDING_LAUNCH, state, reason, at) is not None:
        await record(connection, "job", row["job"], f"job.{state.lower()}", reason, at=at)


async def put_down(connection: Any, row: Any, reason: str, *, at: datetime) -> None:
    """Ends a `locked` run that is PENDING, because somebody wants that; its job was never launched."""
    await move_job(connection, row, JobFact.LAUNCH_FAILED, reason, at=at)
    await end(connection, row, RunFact.KILLED, reason, at=at)


async def record(connection: Any, kind: str, subject: str, action: str, reason: str, *, at: datetime) -> None:
    """A line of history."""
    await connection.execute(SQL["record"], at, kind, subject, action, reason)


async def gone(connection: Any, row: Any) -> tuple[str | None, Any | None]:
    """Why the schedule behind a run no longer stands as it stood (None when it does, or when there is none), and its
    row, locked against changes until the transaction ends.
    """
    if row["schedule"] is None:
        return None, None
    standing = await connection.fetchrow(SQL["lock_schedule"], row["schedule"])
    known = standing is not None and standing["deleted_at"] is None
    why = superseded(
        known=known,
        standing=standing["generation"] if standing else 0,
        enabled=bool(standing and standing["enabled"]),
        generation=row["generation"],
        stands_from=standing["stands_from"] if standing else None,
    )
    if why is None and standing is not None and standing["generation"] != row["generation"]:
        state = await connection.fetchval(SQL["job_state"], row["job"])
        if state == JobState.OBSOLETE:  # a change kept its like, but not this one
            why = "its job ended before it began"
    return why, standing

"""Further attempts of a job whose run failed: planned under the run's lock, stored in the transaction of its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from streamsched.codec.schedules.schedule import schedule_from_json
from streamsched.domain.errors import describe_failure
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState, run_id
from streamsched.domain.limits import add_duration
from streamsched.domain.programs.output import find_uncommitted
from streamsched.domain.schedules.retry import Retry
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection
from streamsched.store.limits import groups
from streamsched.store.runs.ending import current_schedule, program_of
from streamsched.store.runs.rows import SQL, StartedRun, StoredRun
from streamsched.store.sql import Select

log = structlog.get_logger()


class _Committed(NamedTuple):
    dataset: str
    partitions: int


_COMMITTED: Final = Select(SQL["committed"], _Committed)


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """The run that follows a failed one; it starts after `pause`."""

    run: str
    pause: timedelta
    why: str


async def plan_attempt(
    connection: Connection,
    row: StoredRun,
    failure: Failure | None,
    reason: str,
    *,
    at: datetime,
    default: Retry | None = None,
) -> NextAttempt | None:
    """The attempt that follows the end of this locked run; None when it was the last, when the run was to stop, or
    when its schedule no longer permits it. `default`: the retry policy of schedules without one.
    """
    if failure is None or row.job is None:
        return None
    superseded, schedule = await current_schedule(connection, row)
    policy = default
    if superseded is None and schedule is not None:
        policy = _retry(row.schedule, schedule.definition) or default
    if policy is None or not policy.allows(failure, row.attempt):
        return None
    stopped = superseded if failure is Failure.TIMEOUT else row.stop_requested or superseded
    if stopped is not None:
        await record(connection, "job", row.job, "job.not_retried", stopped, at=at)
        return None
    return _next_attempt(row, row.job, policy, failure, reason)


async def check_commits(connection: Connection, row: StoredRun, failure: Failure | None) -> str | None:
    """Why the job of this locked run is done although the run failed: all outputs of its program are committed, and
    its owner said that this is enough. None: it is not.
    """
    if failure in (None, Failure.CANCELLED) or (RunState(row.state), RunFact.SUCCEEDED) not in RUN_STATES.table:
        return None
    program = program_of(row)
    if program is None or not program.done_when_committed:
        return None
    job, attempts = row.job or row.id, range(1, row.attempt + 1)
    committed = await _COMMITTED.fetch(connection, [row.id, *(run_id(job, each) for each in attempts)])
    left = find_uncommitted(program.outputs, committed)
    return None if left else "its outputs are committed, which is enough (done_when_committed)"


def _retry(schedule: str | None, definition: Any) -> Retry | None:
    """The schedule's retry policy; None when the definition cannot be read: the run ends anyway."""
    try:
        return schedule_from_json(definition).retry
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        log.error("schedule.unreadable", schedule=schedule, reason=describe_failure(failure))
        return None


def repeat_lost(row: StartedRun, default: Retry, reason: str) -> NextAttempt | None:
    """The attempt that follows a lost run in the plain case: its schedule is unchanged and not paused, or draining, and
    no user asked the run to stop. None in every other case; `plan_attempt` decides those.
    """
    unchanged = row.admits and row.deleted_at is None and row.generation == row.current
    if row.job is None or row.stop_requested is not None or not unchanged:
        return None
    policy = _retry(row.schedule, row.definition) or default
    if not policy.allows(Failure.LOST, row.attempt):
        return None
    return _next_attempt(row, row.job, policy, Failure.LOST, reason)


def _next_attempt(row: StoredRun | StartedRun, job: str, policy: Retry, failure: Failure, reason: str) -> NextAttempt:
    attempt = row.attempt + 1
    why = f"attempt {attempt} of {policy.attempts}, for run {row.id} failed ({failure}): {reason}"
    return NextAttempt(run_id(job, attempt), policy.pause(row.id, row.attempt), why)


async def make_attempt(connection: Connection, row: StoredRun, attempt: NextAttempt, *, at: datetime) -> None:
    """Stores the attempt; it takes over the slots of the run that ended."""
    start_at = add_duration(at, attempt.pause)
    await connection.execute(SQL["next_attempt"], row.id, attempt.run, RunState.PENDING, at, start_at)
    await groups.hand_over(connection, [row.id], [attempt.run])
    await record(connection, "run", attempt.run, "run.created", attempt.why, at=at)
    await connection.execute(SQL["ring"])

"""Further attempts of a job whose run failed: planned under the run's lock, made in the transaction of its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from streamsched.codec.schedule import schedule_from_json
from streamsched.domain.retry import Failure, Retry
from streamsched.domain.run import RunState, run_id
from streamsched.store import groups
from streamsched.store.ending import SQL, gone, record


@dataclass(frozen=True, slots=True)
class Attempt:
    """What follows a failed run: `pause` later it may be started."""

    run: str
    pause: timedelta
    why: str


async def planned(
    connection: Any, row: Any, failure: Failure | None, reason: str, *, at: datetime, default: Retry | None = None
) -> Attempt | None:
    """The attempt that follows when this `locked` run ends so: none when it was the last, when somebody wanted its end,
    or when its schedule no longer stands as it stood. `default` is for schedules that say nothing of retries.
    """
    if failure is None or row["job"] is None:
        return None
    superseded, standing = await gone(connection, row)
    policy = default
    if superseded is None and standing is not None:
        policy = schedule_from_json(standing["definition"]).retry or default
    if policy is None or not policy.allows(failure, row["attempt"]):
        return None
    stopped = superseded if failure is Failure.TIMEOUT else row["stop_requested"] or superseded
    if stopped is not None:
        await record(connection, "job", row["job"], "job.not_retried", stopped, at=at)
        return None
    attempt = row["attempt"] + 1
    pause = policy.pause(row["id"], row["attempt"])
    told = f"attempt {attempt} of {policy.attempts}, for run {row['id']} failed ({failure}): {reason}"
    return Attempt(run_id(row["job"], attempt), pause, told)


async def make(connection: Any, row: Any, attempt: Attempt, *, at: datetime) -> None:
    """The attempt exists, and holds what the run that ended held."""
    start_at = at + attempt.pause
    await connection.execute(SQL["next_attempt"], row["id"], attempt.run, RunState.PENDING, at, start_at)
    await groups.hand_over(connection, row["id"], attempt.run)
    await record(connection, "run", attempt.run, "run.created", attempt.why, at=at)
    await connection.execute(SQL["ring"])

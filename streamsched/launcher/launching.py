"""One sentence about the last run of an admitted job: why it is not started yet, or its state."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.jobs.run import RunState
from streamsched.domain.time.instants import clock
from streamsched.store.jobs.snapshot import LaunchStatus

#: Silence of a runner that is reported; `RunTimeouts.silence` has the same default.
_SILENCE: Final = timedelta(seconds=15)
#: How long a check or a start may be overdue before the explanation suggests that no launcher runs.
PROMPT: Final = timedelta(seconds=10)


def described_launch(launch: LaunchStatus, *, now: datetime) -> str:
    """One sentence about the run at `now` (UTC)."""
    if launch.state is RunState.PENDING:
        return _describe_pending(launch, now)
    if launch.state.is_terminal:
        return f"launched as {launch.run}, which is {launch.state}" + (f": {launch.reason}" if launch.reason else "")
    beat = launch.heartbeat_at
    if beat is not None and now - beat >= _SILENCE:
        silent = f"its runner {launch.runner} sent its last heartbeat at {clock(beat)}"
        return f"run {launch.run} is {launch.state}, but {silent}"
    if launch.stop_requested is not None:
        return f"run {launch.run} is {launch.state} and asked to end: {launch.stop_requested}"
    return f"launched as {launch.run}, which is {launch.state} since {clock(launch.since)}"


def _describe_pending(launch: LaunchStatus, now: datetime) -> str:
    if launch.held_back:
        return f"run {launch.run} waits until its schedule is resumed"
    due = now if launch.spawn_at is None else max(launch.spawn_at, launch.since)
    if launch.attempt > 1 and not launch.spawns and due > now:
        return f"run {launch.run} starts at {clock(due)}: {launch.reason}"
    if launch.not_spawned is not None:
        return f"no runner process can be started for run {launch.run}: {launch.not_spawned}; again at {clock(due)}"
    if launch.spawns:
        processes = "1 runner process was" if launch.spawns == 1 else f"{launch.spawns} runner processes were"
        return f"{processes} started for run {launch.run} and none has claimed it; the next one is due at {clock(due)}"
    if launch.room is not None:
        return f"run {launch.run} waits for room: {launch.room}"
    if launch.ahead:
        return f"run {launch.run} waits for a runner process: {launch.ahead} before it want one too"
    if now - launch.since >= PROMPT:
        return (
            f"no runner process has been started for run {launch.run} since {clock(launch.since)}: "
            "its host is full, the pace of launches is used up, or no launcher runs"
        )
    return f"run {launch.run} is being given a runner process"

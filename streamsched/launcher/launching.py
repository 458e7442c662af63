"""What stands between an admitted job and its program: the runner process that is to come, or the run as it goes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.run import RunState
from streamsched.ports.jobs import Launch

#: Silence of a runner that is worth saying; the launchers look after it then.
_SILENT: Final = timedelta(seconds=15)
#: How long something may be due before it is worth asking whether anybody is there.
PROMPT: Final = timedelta(seconds=10)


def told(launch: Launch, *, now: datetime) -> str:
    """One sentence about the job's last run at `now` (UTC)."""
    if launch.state is RunState.PENDING:
        return _pending(launch, now)
    if launch.state.terminal:
        return f"launched as {launch.run}, which is {launch.state}" + (f": {launch.reason}" if launch.reason else "")
    heard = launch.heartbeat_at
    if heard is not None and now - heard >= _SILENT:
        return f"run {launch.run} is {launch.state}, but its runner {launch.runner} was last heard of at {clock(heard)}"
    if launch.stop_requested is not None:
        return f"run {launch.run} is {launch.state} and asked to end: {launch.stop_requested}"
    return f"launched as {launch.run}, which is {launch.state} since {clock(launch.since)}"


def _pending(launch: Launch, now: datetime) -> str:
    if launch.held_back:
        return f"run {launch.run} waits until its schedule is resumed"
    due = launch.spawn_at or now
    if launch.attempt > 1 and not launch.spawns and due > now:
        return f"run {launch.run} starts at {clock(due)}: {launch.reason}"
    if launch.not_spawned is not None:
        return f"no runner process can be started for run {launch.run}: {launch.not_spawned}; again at {clock(due)}"
    if launch.spawns:
        processes = "1 runner process was" if launch.spawns == 1 else f"{launch.spawns} runner processes were"
        return f"{processes} started for run {launch.run} and none has claimed it; the next one is due at {clock(due)}"
    if launch.ahead:
        return f"run {launch.run} waits for a runner process: {launch.ahead} before it want one too"
    if now - launch.since >= PROMPT:
        return (
            f"nobody has started a runner process for run {launch.run} since {clock(launch.since)}: "
            "its host is full, the pace of launches is used up, or no launcher runs"
        )
    return f"run {launch.run} is being given a runner process"


def clock(instant: datetime) -> str:
    """An instant (UTC) in a sentence."""
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"

"""Whether each job that was launched has run once: stations 8 and 9, and the requests and events of inline runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from streamsched.domain.constraints.constraint import ConcurrencyScope
from streamsched.domain.jobs.job import JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.signals.signal import Drop, Occurred, Put
from tests.faults.judges.homes import Asked, Homes
from tests.faults.judges.jobs import Stored
from tests.support.judgement import Judgement
from tests.support.rerun import Stamped

#: A job may be stored so long after its time of creation; after longer, if a snapshot proves it.
_STORED_IN: Final = timedelta(seconds=1)
_WAITING: Final = frozenset({JobState.PENDING_CONSTRAINT, JobState.PENDING_LAUNCH})


def judge_runs(homes: Homes, launched: Sequence[ReadyJob], there: Stored, asked: Asked, into: Judgement) -> None:
    """Every job of a trigger is a row that has ended, and has started one run; or it says why not, and that is true."""
    ids = {job.id for job in launched}
    for job in there.jobs.keys() - ids:
        if not there.jobs[job]["submitted"]:
            into.double(f"job {job} was stored and never launched")
    for run, row in there.runs.items():
        if row["state"] == RunState.COMPLETED and kind_of(row) == "bash" and there.started[run] != 1:
            into.spoil(f"run {run} has completed and started {there.started[run]} times")
    for run, times in there.started.items():
        if times > 1:
            into.double(f"run {run} started {times} times", times - 1)
    for job in {job.id: job for job in launched}.values():
        row = there.jobs.get(job.id)
        if row is None:
            into.miss(f"job {job.id} was never stored")
        else:
            judge_job(row, homes, there, asked, into)


def judge_job(
    row: Mapping[str, Any], homes: Homes, there: Stored, asked: Asked, into: Judgement, *, alone: bool = False
) -> None:
    """One stored job. `alone`: it joins no other."""
    job = row["id"]
    times = sum(there.started[run] for run in there.runs_of[job])
    name = None if row["schedule"] is None else row["schedule"].rpartition(".")[2]
    log = homes.get(f"schedule:{row['schedule']}", ())
    match JobState(row["state"]):
        case state if state in _WAITING:
            into.miss(f"job {job} is still {state}: {row['reason']} {row['waiting']}")
        case JobState.LAUNCHED:
            ran_once(job, there, into, permitted=name is None or not superseded(log, row["generation"]))
            if name is not None:
                _in_time(row, name, asked, into)
        case JobState.OBSOLETE if name is not None and superseded(log, row["generation"]):
            if times:
                into.double(f"job {job} is obsolete ({row['reason']}) and has started {there.runs_of[job]}")
        case JobState.COALESCED if name is not None and not alone and asked.schedules[name].overlap is Overlap.COALESCE:
            if times or row["joined"] not in there.jobs:
                into.spoil(f"job {job} has joined {row['joined']} and started {times} times")
        case JobState.TIMED_OUT if name is not None and (limit := asked.schedules[name].timeout) is not None:
            since = row["satisfied_at"] if row["backfill"] is None else row["created_at"]
            if times or row["ended_at"] - since < limit:
                into.spoil(f"job {job} of {since} is {row['state']} since {row['ended_at']} and started {times} times")
        case state:
            into.spoil(f"job {job} is {state}: {row['reason']}")


def judge_held(
    there: Stored, waited: Mapping[str, datetime], timeouts: Mapping[str, timedelta], into: Judgement
) -> None:
    """No job that a pause held timed out sooner than its timeout after the end of the pause. `waited`: job → when that
    end was asked for. `timeouts`: those of schedules, by name.
    """
    for job, asked_at in waited.items():
        row = there.jobs.get(job)
        if row is None:
            into.miss(f"job {job} was held and is not there")
        elif row["state"] == JobState.TIMED_OUT:
            limit = timeouts[row["schedule"].rpartition(".")[2]]
            if row["ended_at"] < asked_at + limit:
                into.spoil(f"job {job} was held until {asked_at} and timed out at {row['ended_at']}")


def judge_published(homes: Homes, there: Stored, event: EventName, into: Judgement) -> None:
    """Each completed run of a `publish` program has published its event once, and nothing else came of that name."""
    came = Counter(signal.event.id for _, signal in homes.get(f"event:{event}", ()) if isinstance(signal, Occurred))
    wanted = {
        f"{run}:{event}"
        for run, row in there.runs.items()
        if kind_of(row) == "publish" and row["state"] == RunState.COMPLETED
    }
    into.compare(f"events {event}", sorted(wanted), sorted(came.elements()))


def judge_lanes(
    there: Stored, lanes: Mapping[str, ConcurrencyScope], into: Judgement, paused: Collection[str] = ()
) -> None:
    """In each lane one run went on at a time, and none began while a job that was satisfied before its own waited.
    `lanes`: schedule → whose runs are one at a time. `paused`: backfills whose jobs may have been held meanwhile, and
    let others go first.
    """
    going: dict[tuple[str, str], str] = {}
    begun: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in there.serial:
        sign, run = line[0], line[1:]
        row = there.job_of(run)
        if row is None or row["schedule"] is None:
            continue
        name = row["schedule"].rpartition(".")[2]
        lane = (name, row["ready"].get("key", "") if lanes[name] is ConcurrencyScope.KEY else "")
        if sign == "-":
            if going.get(lane) == run:
                del going[lane]
            continue
        if lane in going:
            into.double(f"in lane {lane} run {run} began while {going[lane]} went on")
        going[lane] = run
        begun[lane].append(run)
    for lane, runs in begun.items():
        _in_order(lane, [run for run in runs if _backfill_of(run, there) not in paused], there, into)


def _backfill_of(run: str, there: Stored) -> str | None:
    row = there.job_of(run)
    return None if row is None else row["backfill"]


def _in_order(lane: tuple[str, str], runs: Sequence[str], there: Stored, into: Judgement) -> None:
    latest: tuple[Any, ...] | None = None
    for run in runs:
        row = there.job_of(run)
        assert row is not None
        place, admitted = (row["satisfied_at"], row["sequence"], row["id"]), there.runs[run]["created_at"]
        overtaken = latest is not None and place < latest[0] and row["created_at"] + _STORED_IN < latest[1]
        if latest is not None and overtaken and not there.visibility.hidden(row["id"], latest[2]):
            into.spoil(f"in lane {lane} run {run} waited, satisfied at {place[0]}, while {latest[2]} began")
        if latest is None or place > latest[0]:
            latest = place, admitted, run


def kind_of(run: Mapping[str, Any]) -> str:
    """The kind of a run's program, as in its definition."""
    return run["executable"]["type"]


def superseded(log: Sequence[Stamped], generation: int) -> bool:
    """Whether a schedule's home heard of a change that began anew, or of its end."""
    return any(
        (isinstance(signal, Put) and signal.generation > generation and not signal.keep)
        or (isinstance(signal, Drop) and signal.generation >= generation)
        for _, signal in log
    )


def ran_once(job: str, there: Stored, into: Judgement, *, permitted: bool = True) -> None:
    """A command ran in one run. Inline runs are repeated when their launcher is lost: one completed, the others are
    lost. `permitted`: no change ended the job's generation; otherwise the lost run may be the last, and one that
    had not begun is killed.
    """
    states = {run: RunState(there.runs[run]["state"]) for run in there.runs_of[job]}
    times = sum(there.started[run] for run in states)
    completed = [run for run, state in states.items() if state is RunState.COMPLETED]
    kinds = {kind_of(there.runs[run]) for run in states}
    if not all(state.is_terminal for state in states.values()):
        into.miss(f"job {job} has not ended: {states}")
    elif not states:
        into.miss(f"job {job} was launched and has no run")
    elif kinds <= {"http", "publish"}:
        if len(completed) > 1:
            into.double(f"job {job} completed {len(completed)} times: {states}")
        elif not completed and not permitted and set(states.values()) <= {RunState.LOST, RunState.KILLED}:
            return
        elif not completed:
            into.miss(f"job {job} did not complete: {[(run, there.runs[run]['reason']) for run in states]}")
        elif set(states.values()) - {RunState.COMPLETED, RunState.LOST}:
            into.spoil(f"job {job} was repeated for another reason than a lost launcher: {states}")
        elif "http" in kinds and not there.calls[job]:
            into.miss(f"job {job} completed and sent no request: {states}")
    elif times > 1 or len(states) > 1:
        into.double(f"job {job} was submitted {times} times: {states}")
    elif not times:
        into.miss(f"job {job} was launched and has started nothing: {states}")


def _in_time(row: Mapping[str, Any], schedule: str, asked: Asked, into: Judgement) -> None:
    """None that was made under a definition is claimed after a change has returned that began anew (promise G4)."""
    for change in asked.returned:
        gone = change.schedule == schedule and change.anew and row["generation"] < change.generation
        if gone and row["ended_at"] > change.at:
            into.spoil(f"job {row['id']} was launched after generation {change.generation} stood")

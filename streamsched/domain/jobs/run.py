"""A run: one execution of a program. Its state machine is `RUN_STATES`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from streamsched.domain.events.ancestors import NO_ANCESTORS, Ancestors
from streamsched.domain.events.event import Event, Outcome, ProgramReached
from streamsched.domain.names import ProgramRef
from streamsched.domain.state_machine import StateMachine

#: Characters of the longest id that files have in their names, of the beginning of a longer one, and of its digest.
LONGEST_FILE_NAME: Final = 200
_BEGINNING: Final = 140
_DIGEST: Final = 32


class RunState(StrEnum):
    """Where a run is: one execution of a program."""

    #: Stored with its arguments. It waits for a place, and for a runner that claims it.
    PENDING = "PENDING"
    #: A runner has claimed it and starts its process, or submits it to a cluster.
    STARTING = "STARTING"
    #: Its process is alive, of a Spark program its driver. The runner says so by heartbeats.
    RUNNING = "RUNNING"
    #: Its engine has paused it. It keeps its places.
    SUSPENDED = "SUSPENDED"
    #: It ended with exit code 0 or another that the program names, or had committed all that it was to commit.
    COMPLETED = "COMPLETED"
    #: It ended otherwise, or could not be started. The retry policy may make another attempt.
    FAILED = "FAILED"
    #: It was ended by a person, by a limit of time, or for a newer job.
    KILLED = "KILLED"
    #: Its runner has sent no heartbeat for long and its process is gone; how it ended is not known. Counts as failed.
    LOST = "LOST"

    @property
    def is_terminal(self) -> bool:
        return self in RUN_STATES.ends


class RunFact(StrEnum):
    """The events of a run's state machine."""

    CLAIMED = "claimed by a runner"
    RETURNED = "its launcher ended before it started"
    STARTED = "started"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    VANISHED = "vanished"


RUN_STATES: Final = StateMachine(
    "run",
    {
        (RunState.PENDING, RunFact.CLAIMED): RunState.STARTING,
        (RunState.PENDING, RunFact.KILLED): RunState.KILLED,
        (RunState.PENDING, RunFact.FAILED): RunState.FAILED,
        (RunState.STARTING, RunFact.RETURNED): RunState.PENDING,
        (RunState.STARTING, RunFact.STARTED): RunState.RUNNING,
        (RunState.STARTING, RunFact.SUCCEEDED): RunState.COMPLETED,
        (RunState.STARTING, RunFact.FAILED): RunState.FAILED,
        (RunState.STARTING, RunFact.KILLED): RunState.KILLED,
        (RunState.STARTING, RunFact.VANISHED): RunState.LOST,
        (RunState.RUNNING, RunFact.SUSPENDED): RunState.SUSPENDED,
        (RunState.RUNNING, RunFact.SUCCEEDED): RunState.COMPLETED,
        (RunState.RUNNING, RunFact.FAILED): RunState.FAILED,
        (RunState.RUNNING, RunFact.KILLED): RunState.KILLED,
        (RunState.RUNNING, RunFact.VANISHED): RunState.LOST,
        (RunState.SUSPENDED, RunFact.RESUMED): RunState.RUNNING,
        (RunState.SUSPENDED, RunFact.FAILED): RunState.FAILED,
        (RunState.SUSPENDED, RunFact.KILLED): RunState.KILLED,
        (RunState.SUSPENDED, RunFact.VANISHED): RunState.LOST,
    },
    frozenset({RunState.COMPLETED, RunState.FAILED, RunState.KILLED, RunState.LOST}),
)

#: The outcome published for each run state; other states are not published.
OUTCOMES: Final[Mapping[RunState, Outcome]] = MappingProxyType(
    {
        RunState.RUNNING: Outcome.STARTED,
        RunState.COMPLETED: Outcome.SUCCEEDED,
        RunState.FAILED: Outcome.FAILED,
        RunState.KILLED: Outcome.KILLED,
        RunState.LOST: Outcome.FAILED,  # of the last attempt only; earlier ones are retried
    }
)


def status_event(
    run: str,
    program: ProgramRef,
    state: RunState,
    *,
    at: datetime,
    arguments: Mapping[str, str],
    error: str | None = None,
    log_tail: str = "",
    ancestors: Ancestors = NO_ANCESTORS,
) -> Event | None:
    """The `program-status` event of a run's persisted state; None when the state is not published. `at` is UTC;
    `ancestors` include the run's own job.
    """
    outcome = OUTCOMES.get(state)
    if outcome is None:
        return None
    ended_at = at if state.is_terminal else None
    return Event(
        id=f"{run}:{state}",
        source="streamsched/runs",
        time=at,
        fact=ProgramReached(program, run, outcome, arguments, ended_at, error, log_tail, ancestors),
    )


def run_id(job: str, attempt: int) -> str:
    """`<job>.r<attempt>`, attempt counted from 1: a repeated launch has the same id."""
    return f"{job}.r{attempt}"


def file_name(run: str) -> str:
    """What files and folders of a run are called, but for their suffix: its id, or of one that a file could not have in
    its name the beginning and a digest. The name of a name is itself.

    >>> file_name("default.flights.weekly.1.7.r1")
    'default.flights.weekly.1.7.r1'
    """
    if len(run) <= LONGEST_FILE_NAME:
        return run
    return f"{run[:_BEGINNING]}~{sha256(run.encode()).hexdigest()[:_DIGEST]}"


def stands_for_long_id(name: str) -> bool:
    """Whether a file name has the form of those of long ids."""
    return len(name) == _BEGINNING + 1 + _DIGEST and name[_BEGINNING] == "~"


def job_of(run: str) -> str:
    """The job in the id of a run."""
    return run.rpartition(".r")[0]

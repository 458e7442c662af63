"""Runs: executions of programs, from PENDING to their end. Times are UTC.

Every call changes a run, its job, its history, what goes out on `program-status` and who is woken in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from streamsched.domain.event import Event
from streamsched.domain.job import ReadyJob
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.pace import Pace
from streamsched.domain.run import RunState
from streamsched.domain.schedule import Program, Schedule

#: PostgreSQL refuses NUL in a text, JSON and UTF-8 half a character, and a terminal obeys what the others say.
_UNTELLABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it stands. `job` and `schedule` are None for one started by hand."""

    id: str
    job: str | None
    schedule: ScheduleRef | None
    attempt: int
    program: ProgramRef
    arguments: Mapping[str, str]
    state: RunState
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    runner: str | None
    heartbeat_at: datetime | None
    log_path: str | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a runner that claimed a run has to execute. `ready` and `schedule` are None for one started by hand."""

    run: str
    attempt: int
    program: Program
    arguments: Mapping[str, str]
    job: str | None = None
    ready: ReadyJob | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: COMPLETED, FAILED or KILLED; `exit_code` when its process had one. Programs write much of the
    `reason`: in it U+FFFD stands for every control character but tab and line feed, and for half characters.
    """

    state: RunState
    reason: str
    at: datetime
    exit_code: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", _UNTELLABLE.sub("\ufffd", self.reason))

    def bare(self, at: datetime) -> Ending:
        """The same end, with nothing in it that a store may have refused."""
        return Ending(self.state, "what was told of its end cannot be stored", at)


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody wants a run to end: after a moment to tidy up, or at once."""

    why: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A PENDING run for which a runner process is to be started; `spawns` counts this one."""

    run: str
    spawns: int


@dataclass(frozen=True, slots=True)
class Silent:
    """A run that was claimed and has not been heard of since `heartbeat_at`."""

    run: str
    attempt: int
    runner: str
    heartbeat_at: datetime
    log_path: str | None = field(default=None)


class RunBook(Protocol):
    """What a runner writes about the one run it executes."""

    async def claim(self, run: str, *, runner: str, log_path: str | None, now: datetime) -> Assignment | None:
        """PENDING → STARTING for exactly one caller, and its job LAUNCHED; None for everybody else. A caller that asks
        again, because it never heard the answer, gets it once more.

        A run whose schedule was changed, disabled or deleted since it was admitted ends KILLED here, its job OBSOLETE;
        one that somebody wants to end is KILLED too, its job LAUNCH_FAILED.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def started(self, run: str, *, runner: str, now: datetime) -> None:
        """STARTING → RUNNING, and says so on `program-status`. A repeat changes nothing.

        Raises:
            ConflictError: the run is no longer this runner's.
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def beat(self, run: str, *, runner: str, now: datetime) -> Stop | None:
        """The run is alive; returns that it should end, when somebody wants that.

        Raises:
            ConflictError: the run is no longer this runner's, for it was given up as lost.
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def finish(self, run: str, ending: Ending) -> bool:
        """Stores the end and wakes the jobs that wait for it. A failure that the schedule wants retried makes the next
        attempt; any other end goes out on `program-status`. False when the run had ended before; then nothing changes.

        Raises:
            InvalidError: the end cannot be stored, or what is stored of the run cannot be read.
            UnavailableError: PostgreSQL is away.
        """
        ...


class RunCrowd(Protocol):
    """What is written about many runs that one process executes. Each call may be repeated."""

    async def claim(
        self, runs: Sequence[str], *, runner: str, log_path: str | None, now: datetime
    ) -> Sequence[Assignment]:
        """What `RunBook.claim` answers for each of them, without those that somebody else got or that ended.

        Raises:
            InvalidError: what is stored of one of them cannot be read; all may be claimed, and asked for again.
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def beat(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, Stop | None]:
        """These are alive and RUNNING; those that should end have a `Stop`. Those that are missing are no longer this
        runner's: they were given up as lost, or have ended.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def finish(self, endings: Mapping[str, Ending], *, said: Mapping[str, Event]) -> Sequence[str]:
        """Ends them as `RunBook.finish` does, and publishes what those have `said` that are COMPLETED by this call, in
        the same transaction. Returns those that had not ended before.

        Raises:
            InvalidError: one of them cannot be stored; some of the others are, and may be asked for again.
            ConflictError: others changed these runs again and again meanwhile.
            UnavailableError: PostgreSQL is away.
        """
        ...


class FollowUpBook(RunBook, Protocol):
    """What the launchers need to look after runs. `quick` runs are those that a launcher executes itself
    (`domain.schedule.Quick`); the others want a runner process.
    """

    async def unclaimed(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        limit: int,
        pace: Pace | None = None,
        quick: bool = False,
    ) -> tuple[Sequence[Unclaimed], datetime | None]:
        """Takes PENDING runs that need a runner process now, oldest first, each for one caller. When no runner claims
        it, it is taken again at `retry_at[spawns]`, or later by up to the share `jitter` of the time until then; past
        the end of `retry_at` it is left for `give_up`. All callers together keep to the pace; with one, the second
        part of the answer is when it lets the next through.
        """
        ...

    async def next_spawn(self, *, quick: bool = False) -> datetime | None:
        """When the next PENDING run wants to be executed; None when there is none."""
        ...

    async def spawn_failed(self, run: str, reason: str, *, now: datetime) -> None:
        """Notes why no process could be started, in the run's history."""
        ...

    async def give_up(self, now: datetime, *, spawns: int) -> Sequence[str]:
        """Ends PENDING runs for which that many runner processes were started in vain: FAILED, job LAUNCH_FAILED."""
        ...

    async def overdue(self, now: datetime) -> Sequence[str]:
        """Wants every live run to end that is past its deadline, unless somebody does already. Returns their ids."""
        ...

    async def put_down(self, now: datetime) -> Sequence[str]:
        """Ends PENDING runs that somebody wants to end: KILLED, job LAUNCH_FAILED. Returns their ids."""
        ...

    async def silent(self, before: datetime, *, limit: int, behind: Silent | None = None) -> Sequence[Silent]:
        """Claimed runs without a heartbeat since `before`, longest silent first; with one, those `behind` it."""
        ...

    async def lose(self, run: Silent, reason: str, *, now: datetime, attempts: int) -> str | None:
        """The run is LOST, unless it was heard of since. Its job gets a new run as the schedule's policy has
        it, or when it had fewer than `attempts`; unless somebody wanted it to end, or its schedule no longer stands as
        it stood. Returns the new run's id.
        """
        ...


class Runs(Protocol):
    """What people ask and do about runs."""

    async def get(self, run: str) -> RunRecord:
        """Raises:
        NotFoundError: no such run.
        """
        ...

    async def recent(
        self, *, program: ProgramRef | None = None, states: Sequence[RunState] = (), limit: int = 100
    ) -> Sequence[RunRecord]:
        """The newest runs first; of all states when none is named."""
        ...

    async def start(
        self,
        program: ProgramRef,
        arguments: Mapping[str, str],
        *,
        token: str,
        at_most: int | None,
        force: bool,
        now: datetime,
    ) -> str:
        """Makes a PENDING run by hand, under the program's lock; arguments go over the program's own. It takes the
        slots of groups that the program's schedules take. Returns its id, `<program>.manual-<token>.r1`; a repeat with
        the same token finds the first. With `force` there is room for it, whatever the limits.

        Raises:
            NotFoundError: no such program.
            ConflictError: `at_most` runs of the program, or more, are active, or a group has no room.
        """
        ...

    async def stop(self, run: str, stop: Stop, *, now: datetime) -> None:
        """Asks for the run to end: it does so here while it is PENDING, else by its runner within a few seconds.

        Raises:
            NotFoundError: no such run.
            ConflictError: it has ended.
        """
        ...

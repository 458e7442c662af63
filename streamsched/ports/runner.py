"""Runner processes, one for each run; they outlive the process that started them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, Self

from streamsched.domain.constraints.pace import Pace
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import InvalidError
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment, RunEnd, RunStore


@dataclass(frozen=True, slots=True)
class RunnerId:
    """A process on a host; its start time (clock ticks since boot, 0 where unknown) distinguishes it from a later
    process with its pid. As text: `host:pid:ticks`.
    """

    host: str
    pid: int
    start_ticks: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.start_ticks}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises:
        InvalidError: not `host:pid:ticks`.
        """
        try:
            host, pid, ticks = text.rsplit(":", 2)
            return cls(host, int(pid), int(ticks))
        except ValueError:
            raise InvalidError("$", f"'{text}' is not of the form host:pid:ticks") from None


#: Stands for the runner of a run that none executes now.
NO_RUNNER: Final = RunnerId("-", 0, 0)


class Runners(Protocol):
    """Starts runner processes and knows those of this host."""

    def spawn(self, run: str, kind: ProcessKind) -> None:
        """Starts a detached process that claims the run and executes it. Several may be started for a run: the first to
        claim it executes it, the others exit.

        Raises:
            UnavailableError: the process cannot be started now.
        """
        ...

    def fence(self, run: str) -> None:
        """Starts a process that writes the fence of a run that was given up.

        Raises:
            UnavailableError: it cannot be started now.
        """
        ...

    def fence_room(self) -> int:
        """How many more such processes may be started here now."""
        ...

    def places(self) -> Mapping[ProcessKind, int]:
        """How many processes of each kind this host has places for, without the reserve (`process_room.reserve_of`)."""
        ...

    def room(self, kind: ProcessKind) -> int:
        """How many more processes of this kind may be started here now, with the reserve; other runs stay PENDING."""
        ...

    def alive(self, runner: RunnerId) -> bool | None:
        """Whether that process lives; None when it is on another host."""
        ...

    def end_note(self, run: str) -> RunEnd | None:
        """The end that the runner wrote to this host's disk before storing it in PostgreSQL; None without a note.

        Raises:
            UnavailableError: a note may exist, but cannot be read now.
        """
        ...


class InlineRunner(Protocol):
    """Executes short runs in the launcher's process, without a process for each."""

    @property
    def runner(self) -> RunnerId:
        """The id of this process."""
        ...

    def fits(self, program: Program) -> bool:
        """Whether it executes such a program."""
        ...

    def room(self) -> int:
        """How many more runs that send a request this process may hold now: with those it holds, about as many as it
        executes in a second, and those that wait for slow servers.
        """
        ...

    def publications(self) -> int:
        """How many more runs that publish an event or make a task this process may hold now. They end with their claim
        and wait only until their ends are stored, so they take no room from requests.
        """
        ...

    async def room_made(self) -> None:
        """Returns when there is `room` again after there was none; at once when that happened since the last call."""
        ...

    def execute(self, runs: Sequence[Assignment]) -> None:
        """Executes and ends runs that are claimed already; returns at once. Idempotent."""
        ...

    def claim_and_execute(self, runs: Sequence[str]) -> None:
        """Claims these runs and executes those it gets; returns at once."""
        ...

    def holds(self, run: str) -> bool:
        """Whether it executes that run or has not stored its end yet."""
        ...


@dataclass(frozen=True, slots=True)
class RunLog:
    """The log of a run on the disk of this host: how much it takes there, and when it was last written (seconds since
    1970).
    """

    run: str
    bytes: int
    at: float


class RunFileStore(Protocol):
    """The files that runs leave on the disk of this host. The calls block on the disk: use a thread."""

    def untouched(self, since: datetime) -> Sequence[str]:
        """Runs with files here, none of which was modified since then (UTC, by this host's clock)."""
        ...

    def clear(self, runs: Sequence[str]) -> int:
        """Removes all files of these runs; returns how many. Idempotent."""
        ...

    def logs(self) -> Sequence[RunLog]:
        """The logs of all runs here."""
        ...

    def empty_logs(self, runs: Sequence[str], why: str) -> None:
        """Replaces the logs of these runs by a line that says how much was removed, and why. They have ended."""
        ...


@dataclass(frozen=True, slots=True)
class UnclaimedRun:
    """A PENDING run for which a runner process is to be started, the `spawns`-th; `kind`: of which kind it is."""

    run: str
    spawns: int
    kind: ProcessKind = ProcessKind.HOST


@dataclass(frozen=True, slots=True)
class SilentRun:
    """A claimed run without a heartbeat since `heartbeat_at`. `detached`: its driver runs in a cluster and goes on
    without its runner.
    """

    run: str
    attempt: int
    runner: str
    heartbeat_at: datetime
    log_path: str | None = None
    detached: bool = False


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run whose runner is gone, and which was ended.

    Attributes:
        next_run: the run that repeats it, if any.
        done: why it is COMPLETED and not LOST; "": it is LOST.
    """

    run: str
    next_run: str | None
    done: str = ""


class RunMonitorStore(RunStore, Protocol):
    """What launchers need to start and check runs. `inline` runs are executed by a launcher itself
    (`domain.schedules.schedule.InlineExecutable`); the others need a runner process.
    """

    async def claim_inline(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        limit: int,
        inline_by: str,
    ) -> Sequence[UnclaimedRun]:
        """Takes PENDING inline runs for the launcher `inline_by`, a `RunnerId` as text, oldest first, each for one
        caller; `retry_at` and `jitter` as for `next_processes`.
        """
        ...

    async def next_processes(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        room: Mapping[ProcessKind, int],
        pace: Pace | None = None,
    ) -> tuple[Sequence[UnclaimedRun], datetime | None]:
        """Takes PENDING runs that need a runner process now, at most `room` of each kind, in the order in which shares
        get places (`domain.constraints.process_room`), each for one caller. A run that no runner claims is taken again
        at `retry_at[spawns]`, or later by up to the fraction `jitter` of the time until then; past the end of
        `retry_at` it is left to `fail_unstarted`. `pace` limits all callers together; with it, the second value is when
        the next run is permitted.
        """
        ...

    async def wake_for_room(self, now: datetime) -> bool:
        """Makes those jobs due that wait for room and get the next places; whether any wait."""
        ...

    async def next_spawn(self, *, inline: bool = False) -> datetime | None:
        """When the next PENDING run is to be started; None when there is none."""
        ...

    async def spawn_failed(self, run: str, reason: str, *, now: datetime) -> None:
        """Writes to the run's history why no process could be started."""
        ...

    async def fail_unstarted(self, now: datetime, *, spawns: int) -> Sequence[str]:
        """Ends PENDING runs that none of `spawns` runner processes claimed: FAILED, job LAUNCH_FAILED. Returns their
        ids.
        """
        ...

    async def overdue(self, now: datetime) -> Sequence[str]:
        """Requests a stop of every live run past its maximum duration without one. Returns their ids."""
        ...

    async def cancel_pending(self, now: datetime) -> Sequence[str]:
        """Ends PENDING runs with a requested stop: KILLED, job LAUNCH_FAILED. Returns their ids."""
        ...

    async def silent(self, before: datetime, *, limit: int, behind: SilentRun | None = None) -> Sequence[SilentRun]:
        """Claimed runs without a heartbeat since `before`, longest silent first, after the run `behind`."""
        ...

    async def due_fences(self, now: datetime, *, limit: int) -> Sequence[str]:
        """As `ports.programs.fences.FenceStore.due`."""
        ...

    async def release_runner(self, run: SilentRun, reason: str, *, now: datetime) -> bool:
        """Takes a detached run from its runner, which is gone, so that another can claim it. False, without a change,
        when the run had a heartbeat or ended since.
        """
        ...

    async def mark_lost(self, run: SilentRun, reason: str, *, now: datetime, attempts: int) -> LostRun | None:
        """Ends the run: COMPLETED when its program is done by its commits, else LOST. Then its job gets a new run if
        the schedule's retry policy, or without one `attempts`, permits it, unless the run was to stop or its schedule
        changed. None, without a change, when the run had a heartbeat or ended since.
        """
        ...

"""Runs: executions of programs, from PENDING to their end. Times are UTC.

Every call is one transaction: the run, its job, the history, the event for `program-status` and the wake-ups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from streamsched.domain.events.event import LOG_TAIL, Event
from streamsched.domain.graph.task import NodeId
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.provenance import Provenance
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.schedules.template import printable
from streamsched.domain.tasks.task import TaskRequest


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A stored run. `job` and `schedule` are None for a manual run. `muted`: no schedule is given its status.
    `rerun_of`: the run that its job repeats; only of a single run, not in lists. `start`: how the process of a Python
    program was started: `warm`, or `cold: ` and the reason. `metrics`: as stored last; None without any. `driver`: of a
    run whose driver is in a cluster. `trace`: the id of its trace; only of a single run, and None without one.
    `failure`: its class, of a run that failed. `bundle`: the digest of the files its program ran with, if they were
    deployed; `generation`: the version of its schedule; only of a single run, and None without one. `commits`: what it
    has committed, as `codec.views.run_commits` shows it; only of a single run. `fence`: whether a run that was given up
    may still commit; None of others.
    """

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
    muted: bool = False
    rerun_of: str | None = None
    start: str | None = None
    metrics: RunMetrics | None = None
    driver: Driver | None = None
    trace: str | None = None
    failure: Failure | None = None
    bundle: str | None = None
    fence: str | None = None
    generation: int | None = None
    commits: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a runner that claimed a run executes. `job`, `ready` and `schedule` are None for a manual run.

    `taken_over`: an earlier runner of the run has ended, and may have submitted its driver to a cluster; `driver`: that
    driver, when it was stored. `traceparent`: the context that its program goes on from, given by who executes it.
    """

    run: str
    attempt: int
    program: Program
    arguments: Mapping[str, str]
    job: str | None = None
    ready: ReadyJob | None = None
    schedule: Schedule | None = None
    taken_over: bool = False
    driver: Driver | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run: COMPLETED, FAILED or KILLED; `exit_code` when its process had one; `log_tail`, the last
    `LOG_TAIL` characters of its log when it did not complete; `start`: how its process was started; `failure`: of which
    class, when that is more than an error;
    `metrics`: None when there are none; `may_live`: whether its process may live on, since it could not be ended. In
    reason and log U+FFFD replaces control characters except tab and line feed, and incomplete characters.
    """

    state: RunState
    reason: str
    at: datetime
    exit_code: int | None = None
    log_tail: str = ""
    start: str = ""
    failure: Failure | None = None
    metrics: RunMetrics | None = None
    may_live: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))
        object.__setattr__(self, "log_tail", printable(self.log_tail[-LOG_TAIL:]))

    def bare(self, at: datetime) -> RunEnd:
        """The same end without texts, for a store that refused them."""
        return RunEnd(self.state, "the reason of its end cannot be stored", at, may_live=self.may_live)


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to end a run: with time to clean up, or at once."""

    why: str
    at_once: bool = False


class RunStore(Protocol):
    """What a runner writes about the run it executes."""

    async def claim(self, run: str, *, runner: str, log_path: str | None, now: datetime) -> Assignment | None:
        """PENDING → STARTING for exactly one caller, and its job LAUNCHED; None for all others. Repeated by the same
        caller it returns the same assignment.

        A run whose schedule was changed, disabled or deleted since its admission ends KILLED here, its job OBSOLETE;
        one that is to stop is KILLED too, its job LAUNCH_FAILED. An unattended run goes on under the caller.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def started(self, run: str, *, runner: str, now: datetime, start: str = "") -> None:
        """STARTING → RUNNING, with an event on `program-status`. Idempotent. `start`: how its process was started.

        Raises:
            ConflictError: the run is no longer this runner's.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def submitted(self, run: str, *, runner: str, driver: Driver, now: datetime) -> None:
        """Stores the driver that a cluster runs for the run, so that the next runner finds it. Idempotent; a
        repetition may add where its logs are.

        Raises:
            ConflictError: the run is no longer this runner's.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None:
        """Stores a heartbeat, and the metrics unless they are None; returns a requested stop.

        Raises:
            ConflictError: the run is no longer this runner's: it was marked lost, or ended.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def finish(self, run: str, ending: RunEnd) -> bool:
        """Stores the end and wakes the jobs that wait for it. A failure that the schedule retries creates the next
        attempt; any other end is published on `program-status`. False, without a change, when the run had ended before.

        Raises:
            InvalidError: the end cannot be stored, or the stored run cannot be read.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


class RunBatch(Protocol):
    """`RunStore` for many runs of one process. Each call is idempotent."""

    async def claim(
        self, runs: Sequence[str], *, runner: str, log_path: str | None, now: datetime
    ) -> Sequence[Assignment]:
        """`RunStore.claim` for each; the runs it gives to the caller.

        Raises:
            InvalidError: one of them cannot be read; some may be claimed, and the call may be repeated.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def started(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, StopRequest | None]:
        """STARTING → RUNNING, with events on `program-status`, except of runs that are to stop. Returns what
        `heartbeat` returns.

        Raises:
            InvalidError: one of them cannot be stored; nothing changed.
            UnavailableError: PostgreSQL is unavailable; the call may be repeated.
        """
        ...

    async def heartbeat(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, StopRequest | None]:
        """Stores heartbeats. Returns the requested stops; a missing run is no longer this runner's: it was taken back,
        marked lost, or has ended.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def finish(
        self,
        endings: Mapping[str, RunEnd],
        *,
        events: Mapping[str, Event],
        products: Mapping[str, Product] | None = None,
    ) -> Sequence[str]:
        """`RunStore.finish` for each; publishes the events, makes the tasks and completes the nodes of runs COMPLETED
        by this call in the same transaction. A node that has been completed stays so. Returns those that had not ended
        before.

        Raises:
            NotFoundError: there is no such queue for a task, or no such task in the graph of a node.
            InvalidError: one of them cannot be stored; some of the others may be, and the call may be repeated.
            ConflictError: concurrent changes of these runs, repeatedly.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


class EnqueuedTask(NamedTuple):
    """A task that the end of a run makes."""

    queue: str
    request: TaskRequest


class ArrivedNode(NamedTuple):
    """A node of an app's graph that the end of a run completes. `job`: of the run; None without one."""

    app: AppRef
    node: NodeId
    job: str | None


#: What the end of a run makes.
Product = EnqueuedTask | ArrivedNode


class RunQueries(Protocol):
    """Reads and operator actions for API, CLI and UI."""

    async def get(self, run: str) -> RunRecord:
        """Raises:
        NotFoundError: no such run.
        """
        ...

    async def provenance(self, run: str) -> Provenance:
        """Where a run comes from.

        Raises:
            NotFoundError: no such run.
            InvalidError: its job, program or schedule cannot be read.
        """
        ...

    async def recent(
        self,
        *,
        program: ProgramRef | None = None,
        app: AppRef | None = None,
        namespace: str | None = None,
        states: Sequence[RunState] = (),
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[RunRecord]:
        """The newest runs first; of all programs, apps, namespaces and states where none is named; older than
        `before` (time of creation and id of a run), when given.
        """
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
        reason: str = "",
    ) -> str:
        """Makes a PENDING manual run, under the program's lock; `arguments` override preferences of the
        namespace, and these the program's own. It takes the slots and tokens that the program's schedules take. Returns
        its id, `<program>.manual-<token>.r1`; idempotent by `token`. `force` ignores the limits. `reason` is stored in
        its history.

        Raises:
            NotFoundError: no such program.
            ConflictError: `at_most` or more runs of the program are active, or a group or pool is full.
        """
        ...

    async def stop(self, run: str, stop: StopRequest, *, now: datetime) -> None:
        """Requests the end of the run: a PENDING one ends here, another by its runner within a few seconds.

        Raises:
            NotFoundError: no such run.
            ConflictError: it has ended.
        """
        ...

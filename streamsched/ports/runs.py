"""Runs, as who executes them knows them: from their claim to their end. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.events.event import LOG_TAIL
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.schedules.template import replace_unprintable


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
        object.__setattr__(self, "reason", replace_unprintable(self.reason))
        object.__setattr__(self, "log_tail", replace_unprintable(self.log_tail[-LOG_TAIL:]))

    def drop_texts(self, at: datetime) -> RunEnd:
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

    async def mark_started(self, run: str, *, runner: str, now: datetime, start: str = "") -> None:
        """STARTING → RUNNING, with an event on `program-status`. Idempotent. `start`: how its process was started.

        Raises:
            ConflictError: the run is no longer this runner's.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def store_driver(self, run: str, *, runner: str, driver: Driver, now: datetime) -> None:
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

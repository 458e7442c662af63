"""What pages read about events and runs beside the services of the API, each at a bounded cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from streamsched.domain.jobs.run import RunState
from streamsched.domain.signals.finding import KNOWN_BY
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries
from streamsched.store.web.page_reads import SEARCHED_RUNS, id_prefix

#: Runs of a day that are counted.
COUNTED_RUNS: Final = 1000
#: Bytes of a job's events above which they are not read for the key matrix.
LARGEST_CONSUMED: Final = 100_000


class EventVerdicts(NamedTuple):
    """How many verdicts of one kind (a `Verdict`) an event has."""

    event: str
    source: str
    verdict: str
    number: int


class ScheduleLateEvent(NamedTuple):
    """An event that came late for a schedule. `event`: its id, cut to `domain.signals.finding.KNOWN_BY` characters."""

    schedule: str
    event: str


class ConsumedEvents(NamedTuple):
    """A job with what it used up. `ready` as `codec.records.launch` writes it; None when it is too large."""

    job: str
    ready: Mapping[str, Any] | None


class RunDay(NamedTuple):
    """Runs that were created on a day (UTC), by state, at most `COUNTED_RUNS`."""

    day: date
    states: Mapping[RunState, int]


class MissedDeadline(NamedTuple):
    """A job that missed a deadline; `missed` are sentences."""

    job: str
    missed: list[str]
    at: datetime


class _RunsOfDay(NamedTuple):
    day: date
    state: str
    number: int


_SQL: Final = queries("web/activity_reads")
_VERDICTS: Final = Select(_SQL["verdicts"], EventVerdicts)
_LATE: Final = Select(_SQL["late"], ScheduleLateEvent)
_CONSUMED: Final = Select(_SQL["consumed"], ConsumedEvents)
_RUN_DAYS: Final = Select(_SQL["run_days"], _RunsOfDay)
_RUN_DAYS_OF_PROGRAM: Final = Select(_SQL["run_days_of_program"], _RunsOfDay)
_MISSED: Final = Select(_SQL["missed"], MissedDeadline)


class ActivityReads:
    """Each method is one statement, and raises UnavailableError without PostgreSQL. `namespace` None: all of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def verdicts(self, events: Sequence[str]) -> Sequence[EventVerdicts]:
        """The verdicts of events with these ids."""
        with translate_errors():
            return await _VERDICTS.fetch(self._pool, [each[:KNOWN_BY] for each in events])

    async def late_events(self, schedules: Sequence[str], events: Sequence[str]) -> frozenset[ScheduleLateEvent]:
        """Which of these events came late for which of these schedules."""
        with translate_errors():
            return frozenset(await _LATE.fetch(self._pool, schedules, [each[:KNOWN_BY] for each in events]))

    async def consumed_events(self, schedule: str, *, limit: int) -> Sequence[ConsumedEvents]:
        """The newest jobs of a schedule that have not left for the history, newest first."""
        with translate_errors():
            return await _CONSUMED.fetch(self._pool, schedule, limit, LARGEST_CONSUMED)

    async def run_days(self, *, program: str | None, namespace: str | None, days: Sequence[date]) -> Sequence[RunDay]:
        """The runs of each of these days: of a program, else of a namespace."""
        with translate_errors():
            if program is None:
                rows = await _RUN_DAYS.fetch(self._pool, id_prefix(namespace), days, COUNTED_RUNS)
            else:
                rows = await _RUN_DAYS_OF_PROGRAM.fetch(self._pool, program, days, COUNTED_RUNS)
        found: dict[date, dict[RunState, int]] = {day: {} for day in days}
        for row in rows:
            found[row.day][RunState(row.state)] = row.number
        return [RunDay(day, states) for day, states in found.items()]

    async def missed_deadlines(self, *, namespace: str | None, limit: int) -> Sequence[MissedDeadline]:
        """Jobs that missed a deadline, among the newest `SEARCHED_RUNS`, newest first."""
        with translate_errors():
            return await _MISSED.fetch(self._pool, id_prefix(namespace), SEARCHED_RUNS, limit)

"""Traces of events: what their verdicts say, and what became of the jobs; the log gives how far the table is behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.domain.jobs.job import JobState, job_id
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.signals.finding import KNOWN_BY, AtSchedule, Finding, NoListener
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.topics import VERDICTS
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.store.catalog.app_rows import ScheduleRow, schedule_record
from streamsched.store.connections import Executor, Pool, translate_errors
from streamsched.store.events.verdicts import FindingRow, read_finding
from streamsched.store.positions import POSITIONS
from streamsched.store.sql import Select, queries
from streamsched.wire.schedules import VerdictTotal

_SQL: Final = queries("events/event_traces")

#: The jobs searched for the one that consumed an event: so many from the next one on (paired and correlated events may
#: go with a later job), and so many of each of the next generations, when a change kept the accumulation.
_JOBS: Final = 500
_GENERATIONS: Final = 20
_JOBS_OF_A_LATER_ONE: Final = 20
#: Most schedules examined for listeners of a key.
_EXAMINED: Final = 2000


@dataclass(frozen=True, slots=True)
class ConsumingJob:
    """The job that consumed an event.

    Attributes:
        joined: the job into which a COALESCED one was coalesced.
        runs: ids of its runs, or of the job it was coalesced into, first attempt first.
        run_state: of the last run; None without any.
    """

    job: str
    state: JobState
    reason: str
    joined: str | None
    runs: tuple[str, ...]
    run_state: RunState | None = None


@dataclass(frozen=True, slots=True)
class CurrentSchedule:
    """A schedule at present.

    Attributes:
        progress: the accumulation of this generation, `domain.fold.explain` as JSON; None before the first event.
    """

    record: ScheduleRecord
    progress: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EventTrace:
    """The trace of an event.

    Attributes:
        findings: oldest first, up to the limit of the query.
        consuming_jobs: for each finding the job that has consumed the event since, or None.
        schedules: those of the findings; one that does not exist is missing.
        listeners: for each event key without a listener at the time, the schedules that listen to it now.
        behind: how many records of topic `verdicts` (one for each turn) are not stored yet.
    """

    event: str
    findings: Sequence[Finding]
    consuming_jobs: Sequence[ConsumingJob | None]
    schedules: Mapping[ScheduleRef, CurrentSchedule]
    listeners: Mapping[str, Sequence[CurrentSchedule]]
    behind: int


class _ConsumingJob(NamedTuple):
    id: str
    state: str
    reason: str
    joined: str | None
    runs: list[str]
    run_state: str | None


class _CurrentSchedule(NamedTuple):
    """The columns of `ScheduleRow`, and the progress."""

    id: str
    definition: Any
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    kept_in: int | None
    kept_from: int | None
    resumed_at: datetime | None
    affinity: int | None
    mode: str | None
    until: datetime | None
    note: str | None
    progress: dict[str, Any] | None


_FINDINGS: Final = Select(_SQL["findings"], FindingRow)
_CONSUMING_JOB: Final = Select(_SQL["consuming_job"], _ConsumingJob)
_STANDINGS: Final = Select(_SQL["standings"], _CurrentSchedule)
_MENTIONING: Final = Select(_SQL["mentioning"], _CurrentSchedule)
_TOTALS: Final = Select(_SQL["totals"], VerdictTotal)


async def read_totals(executor: Executor, schedule: ScheduleRef) -> Sequence[VerdictTotal]:
    """The schedule's verdict counts, ordered by name."""
    return await _TOTALS.fetch(executor, str(schedule))


class EventTraces:
    """Reads traces for API, CLI and UI. Its reads are not of one snapshot."""

    def __init__(self, pool: Pool, broker: Broker) -> None:
        self._pool = pool
        self._broker = broker

    async def follow(self, event: str, *, source: str | None = None, limit: int = 100) -> EventTrace:
        """The trace of an event, of any source when none is given. An unknown event has no findings.

        Raises:
            UnavailableError: PostgreSQL or the log is unavailable.
        """
        known = None if source is None else source[:KNOWN_BY]
        behind = (
            await self._count_behind()
        )  # before the findings, so that one stored in between is not reported as missing
        with translate_errors():
            findings = [read_finding(row) for row in await _FINDINGS.fetch(self._pool, event[:KNOWN_BY], known, limit)]
            schedules = await self._schedules(findings)
            consuming_jobs = [await self._consuming_job(each, schedules) for each in findings]
            listeners = await self.listeners(sorted(_unheard_keys(findings)))
        return EventTrace(event, findings, consuming_jobs, schedules, listeners, behind)

    async def _schedules(self, findings: Sequence[Finding]) -> Mapping[ScheduleRef, CurrentSchedule]:
        names = {str(each.reason.schedule) for each in findings if isinstance(each.reason, AtSchedule)}
        found = [_current_schedule(row) for row in await _STANDINGS.fetch(self._pool, sorted(names))]
        return {each.record.definition.ref: each for each in found}

    async def _consuming_job(
        self, found: Finding, schedules: Mapping[ScheduleRef, CurrentSchedule]
    ) -> ConsumingJob | None:
        reason = found.reason
        if not isinstance(reason, AtSchedule) or not reason.judged.is_kept:
            return None
        current = schedules.get(reason.schedule)
        candidates = list(_candidates(reason, reason.generation if current is None else current.record.generation))
        held = {"events": [{"id": found.event, "source": found.source}]}
        row = await _CONSUMING_JOB.fetchrow(self._pool, candidates, held, found.at)
        if row is None:
            return None
        run_state = None if row.run_state is None else RunState(row.run_state)
        return ConsumingJob(row.id, JobState(row.state), row.reason, row.joined, tuple(row.runs), run_state)

    async def listeners(self, keys: Sequence[str]) -> Mapping[str, Sequence[CurrentSchedule]]:
        """For each event key the schedules that listen to it, enabled or not; a key for which too many schedules would
        have to be examined is missing.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            rows = await _MENTIONING.fetch(self._pool, sorted(set(map(_subject, keys))), _EXAMINED)
        found: dict[str, list[CurrentSchedule]] = {key: [] for key in keys}
        for current in map(_current_schedule, rows):
            for key in found.keys() & event_keys(current.record.definition.trigger):
                found[key].append(current)
        whole = len(rows) < _EXAMINED
        return {key: schedules for key, schedules in found.items() if schedules or whole}

    async def totals(self, schedule: ScheduleRef) -> Sequence[VerdictTotal]:
        """The schedule's verdict counts, ordered by name.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            return await read_totals(self._pool, schedule)

    async def _count_behind(self) -> int:
        partitions = range(await self._broker.partitions(VERDICTS))
        ends = await self._broker.ends([TopicPartition(VERDICTS, partition) for partition in partitions])
        with translate_errors():
            taken = dict(await POSITIONS.fetch(self._pool, VERDICTS))
        return sum(max(0, end - taken.get(at.partition, 0)) for at, end in ends.items())


def _candidates(reason: AtSchedule, current: int) -> Iterator[str]:
    first, generation = reason.next_job, reason.generation
    for number in range(first, first + _JOBS):
        yield job_id(reason.schedule, generation, number)
    for later in range(generation + 1, min(current, generation + _GENERATIONS) + 1):
        for number in range(1, _JOBS_OF_A_LATER_ONE + 1):
            yield job_id(reason.schedule, later, number)


def _unheard_keys(findings: Sequence[Finding]) -> set[str]:
    return {each.reason.key for each in findings if isinstance(each.reason, NoListener)}


def _subject(key: str) -> str:
    """A text that every definition listening to the event key contains: the last name in the key."""
    return key.split(":")[1].rpartition(".")[2]


def _current_schedule(row: _CurrentSchedule) -> CurrentSchedule:
    return CurrentSchedule(schedule_record(ScheduleRow(*row[:14])), row.progress)

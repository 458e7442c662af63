"""`ports.verdicts.EventTraces` on PostgreSQL; the log gives how far the table is behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from streamsched.domain.events.lateness import OnLate
from streamsched.domain.jobs.job import JobState, job_id
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.finding import KNOWN_BY, AtSchedule, Finding, NoListener
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.topics import VERDICTS
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.verdicts import ConsumingJob, CurrentSchedule, EventTrace, VerdictTotal
from streamsched.store.catalog.app_rows import ScheduleRow, schedule_record
from streamsched.store.connections import translated
from streamsched.store.events.verdicts import finding
from streamsched.store.sql import queries

_SQL: Final = queries("events/event_traces")

#: The jobs searched for the one that consumed an event: so many from the next one on (paired and correlated events may
#: go with a later job), and so many of each of the next generations, when a change kept the accumulation.
_JOBS: Final = 500
_GENERATIONS: Final = 20
_JOBS_OF_A_LATER_ONE: Final = 20
#: Most schedules examined for listeners of a key.
_MENTIONING: Final = 2000


class PostgresEventTraces:
    """See `ports.verdicts.EventTraces`. Its reads are not of one snapshot."""

    def __init__(self, pool: asyncpg.Pool, broker: Broker) -> None:
        self._pool = pool
        self._broker = broker

    async def follow(self, event: str, *, source: str | None = None, limit: int = 100) -> EventTrace:
        known = None if source is None else source[:KNOWN_BY]
        behind = (
            await self._behind()
        )  # read before the findings, so that a finding stored in between is not reported as missing
        with translated():
            rows = await self._pool.fetch(_SQL["findings"], event[:KNOWN_BY], known, limit)
            findings = [finding(row) for row in rows]
            schedules = await self._schedules(findings)
            consuming_jobs = [await self._consuming_job(each, schedules) for each in findings]
            listeners = await self.listeners(sorted(_unheard_keys(findings)))
        return EventTrace(event, findings, consuming_jobs, schedules, listeners, behind)

    async def _schedules(self, findings: Sequence[Finding]) -> Mapping[ScheduleRef, CurrentSchedule]:
        names = {str(each.reason.schedule) for each in findings if isinstance(each.reason, AtSchedule)}
        found = [_current_schedule(row) for row in await self._pool.fetch(_SQL["standings"], sorted(names))]
        return {each.record.definition.ref: each for each in found}

    async def _consuming_job(
        self, found: Finding, schedules: Mapping[ScheduleRef, CurrentSchedule]
    ) -> ConsumingJob | None:
        reason = found.reason
        if not isinstance(reason, AtSchedule) or not reason.judged.kept:
            return None
        current = schedules.get(reason.schedule)
        candidates = list(_candidates(reason, reason.generation if current is None else current.record.generation))
        held = {"events": [{"id": found.event, "source": found.source}]}
        row = await self._pool.fetchrow(_SQL["consuming_job"], candidates, held, found.at)
        if row is None:
            return None
        return ConsumingJob(
            row["id"],
            JobState(row["state"]),
            row["reason"],
            row["joined"],
            tuple(row["runs"]),
            None if row["run_state"] is None else RunState(row["run_state"]),
        )

    async def listeners(self, keys: Sequence[str]) -> Mapping[str, Sequence[CurrentSchedule]]:
        with translated():
            rows = await self._pool.fetch(_SQL["mentioning"], sorted(set(map(_subject, keys))), _MENTIONING)
        found: dict[str, list[CurrentSchedule]] = {key: [] for key in keys}
        for current in map(_current_schedule, rows):
            for key in found.keys() & event_keys(current.record.definition.trigger):
                found[key].append(current)
        whole = len(rows) < _MENTIONING
        return {key: schedules for key, schedules in found.items() if schedules or whole}

    async def totals(self, schedule: ScheduleRef) -> Sequence[VerdictTotal]:
        with translated():
            rows = await self._pool.fetch(_SQL["totals"], str(schedule))
        return [
            VerdictTotal(
                Verdict(row["verdict"]), OnLate(row["late"]) if row["late"] else None, row["total"], row["last_at"]
            )
            for row in rows
        ]

    async def _behind(self) -> int:
        partitions = range(await self._broker.partitions(VERDICTS))
        ends = await self._broker.ends([TopicPartition(VERDICTS, partition) for partition in partitions])
        with translated():
            rows = await self._pool.fetch(_SQL["positions"], VERDICTS)
        taken = {row["partition"]: row["position"] for row in rows}
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


def _current_schedule(row: Any) -> CurrentSchedule:
    return CurrentSchedule(schedule_record(ScheduleRow(*row[:13])), row["progress"])

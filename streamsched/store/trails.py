"""`ports.verdicts.Trails` on PostgreSQL, and on the log for how far behind it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from streamsched.domain.finding import KNOWN_BY, AtSchedule, Finding, Unheard
from streamsched.domain.job import JobState, job_id
from streamsched.domain.lateness import OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.run import RunState
from streamsched.domain.trigger import event_keys
from streamsched.domain.verdict import Verdict
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.topics import VERDICTS
from streamsched.ports.verdicts import Standing, Taker, Total, Trail
from streamsched.store.catalog import schedule_record
from streamsched.store.listing import pause_of
from streamsched.store.pool import translated
from streamsched.store.sql import queries
from streamsched.store.verdicts import finding

_SQL: Final = queries("trails")

#: Where the job that took an event is looked for: so many jobs from the next one on (what is paired, or correlated,
#: need not go with the next), and as many generations later, where a change kept what had come, so many jobs of each.
_JOBS: Final = 500
_GENERATIONS: Final = 20
_JOBS_OF_A_LATER_ONE: Final = 20
#: As many schedules as are looked at for those that listen to a key.
_MENTIONING: Final = 2000


class PostgresTrails:
    """See `ports.verdicts.Trails`. What it reads may be a moment apart."""

    def __init__(self, pool: asyncpg.Pool, broker: Broker) -> None:
        self._pool = pool
        self._broker = broker

    async def follow(self, event: str, *, source: str | None = None, limit: int = 100) -> Trail:
        known = None if source is None else source[:KNOWN_BY]
        behind = await self._behind()  # before the findings: what is in none of them came after, or was never there
        with translated():
            rows = await self._pool.fetch(_SQL["findings"], event[:KNOWN_BY], known, limit)
            findings = [finding(row) for row in rows]
            standings = await self._standings(findings)
            takers = [await self._taker(each, standings) for each in findings]
            listeners = await self.listeners(sorted(_unheard(findings)))
        return Trail(event, findings, takers, standings, listeners, behind)

    async def _standings(self, findings: Sequence[Finding]) -> Mapping[ScheduleRef, Standing]:
        names = {str(each.ground.schedule) for each in findings if isinstance(each.ground, AtSchedule)}
        found = [_standing(row) for row in await self._pool.fetch(_SQL["standings"], sorted(names))]
        return {each.record.definition.ref: each for each in found}

    async def _taker(self, found: Finding, standings: Mapping[ScheduleRef, Standing]) -> Taker | None:
        ground = found.ground
        if not isinstance(ground, AtSchedule) or ground.judged.verdict is not Verdict.COUNTED:
            return None
        standing = standings.get(ground.schedule)
        candidates = list(_candidates(ground, ground.generation if standing is None else standing.record.generation))
        held = {"events": [{"id": found.event, "source": found.source}]}
        row = await self._pool.fetchrow(_SQL["taker"], candidates, held, found.at)
        if row is None:
            return None
        return Taker(
            row["id"],
            JobState(row["state"]),
            row["reason"],
            row["joined"],
            tuple(row["runs"]),
            None if row["run_state"] is None else RunState(row["run_state"]),
        )

    async def listeners(self, keys: Sequence[str]) -> Mapping[str, Sequence[Standing]]:
        with translated():
            rows = await self._pool.fetch(_SQL["mentioning"], sorted(set(map(_name, keys))), _MENTIONING)
        found: dict[str, list[Standing]] = {key: [] for key in keys}
        for standing in map(_standing, rows):
            for key in found.keys() & event_keys(standing.record.definition.trigger):
                found[key].append(standing)
        whole = len(rows) < _MENTIONING
        return {key: standings for key, standings in found.items() if standings or whole}

    async def totals(self, schedule: ScheduleRef) -> Sequence[Total]:
        with translated():
            rows = await self._pool.fetch(_SQL["totals"], str(schedule))
        return [
            Total(Verdict(row["verdict"]), OnLate(row["late"]) if row["late"] else None, row["total"], row["last_at"])
            for row in rows
        ]

    async def _behind(self) -> int:
        partitions = range(await self._broker.partitions(VERDICTS))
        ends = await self._broker.ends([TopicPartition(VERDICTS, partition) for partition in partitions])
        with translated():
            rows = await self._pool.fetch(_SQL["positions"], VERDICTS)
        taken = {row["partition"]: row["position"] for row in rows}
        return sum(max(0, end - taken.get(at.partition, 0)) for at, end in ends.items())


def _candidates(ground: AtSchedule, standing: int) -> Iterator[str]:
    first, generation = ground.next_job, ground.generation
    for number in range(first, first + _JOBS):
        yield job_id(ground.schedule, generation, number)
    for later in range(generation + 1, min(standing, generation + _GENERATIONS) + 1):
        for number in range(1, _JOBS_OF_A_LATER_ONE + 1):
            yield job_id(ground.schedule, later, number)


def _unheard(findings: Sequence[Finding]) -> set[str]:
    return {each.ground.key for each in findings if isinstance(each.ground, Unheard)}


def _name(key: str) -> str:
    """What a definition that listens to an event key must have in it: the last name of what the key is about."""
    return key.split(":")[1].rpartition(".")[2]


def _standing(row: Any) -> Standing:
    return Standing(schedule_record(row, pause_of(row)), row["progress"])

"""PostgreSQL in a few dictionaries: what the loops store, each call a transaction because nothing interrupts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.signals.signal import Woken
from streamsched.domain.ticks.wakeups import send_at
from streamsched.domain.triggers.trigger import Every, leaf_id, leaves
from streamsched.ports import notifier
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeBatch, IntakeResult, ReadyJobRow
from streamsched.ports.outbox import OutboxRecord, PendingRecord
from streamsched.ports.timers import DueTimer, Firing, WakeRecord, WakeUpRequest
from streamsched.store.catalog.records import ScheduleChange
from tests.simulation.wire import Wire


class StoredJob(NamedTuple):
    """A row of the jobs."""

    satisfaction: ReadyJobRow
    obsolete: bool


class StoredWake(NamedTuple):
    """A row of the wake-ups."""

    woken: Woken
    due_at: datetime


@dataclass(slots=True)
class StoredLease:
    """A row of the leases."""

    owner: str
    epoch: int
    expires_at: datetime
    wanted_by: str | None = None


class Database:
    """The tables. `rung` has those who wait for a notifier."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.schedules: dict[ScheduleRef, ScheduleRecord] = {}
        self.outbox: dict[int, PendingRecord] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.jobs: dict[str, StoredJob] = {}
        self.wakes: dict[tuple[ScheduleRef, str], StoredWake] = {}
        self.timers: dict[tuple[ScheduleRef, str], DueTimer] = {}
        self.leases: dict[str, StoredLease] = {}
        self.workers: dict[str, datetime] = {}
        self.rung: dict[str, list[asyncio.Event]] = {}
        self._ids = 0

    def change(self, wanted: ScheduleChange, rows: Sequence[PendingRecord]) -> None:
        """A change of a definition commits: the schedule, its timers and its outbox rows are visible from here on."""
        after, ref = wanted.after, wanted.after.definition.ref
        self.schedules[ref] = after
        stay = {place: self.timers.pop(place).due_at for place in list(self.timers) if place[0] == ref}
        known = {leaf_id(leaf): leaf for leaf in leaves(after.definition.trigger) if isinstance(leaf, Every)}
        for leaf, due_at in wanted.timers.items():
            due = stay.get((ref, leaf), due_at) if wanted.keeps else due_at
            self.timers[ref, leaf] = DueTimer(
                ref,
                after.generation,
                leaf,
                known[leaf],
                after.definition.misfire,
                due,
                after.created_at,
                affinity=after.affinity,
            )
        self.committed(rows)
        self.notify(notifier.TIMERS)

    def numbered(self, records: Sequence[OutboxRecord]) -> list[PendingRecord]:
        """Rows as a transaction has them before it commits."""
        rows: list[PendingRecord] = []
        for record in records:
            self._ids += 1
            rows.append(PendingRecord(self._ids, *record))
        return rows

    def committed(self, rows: Sequence[PendingRecord]) -> None:
        """The rows of an outbox transaction are visible from here on."""
        self.outbox.update({row.id: row for row in rows})
        if rows:
            self.notify(notifier.OUTBOX)

    def notify(self, channel: str) -> None:
        for event in self.rung.get(channel, []):
            event.set()

    def held(self, topic: str, batches: Sequence[IntakeBatch[Any]]) -> list[IntakeBatch[Any]]:
        """The batches that count; their positions are where they end now."""
        held = [each for each in batches if self.positions.get((topic, each.partition), 0) == each.start]
        self.positions.update({(topic, each.partition): each.next for each in held})
        return held

    def exists(self, ref: str) -> bool:
        record = self.schedules.get(ScheduleRef.parse(ref))
        return record is not None and record.exists


class SimulationNotifier:
    """`ports.notifier.Bell`: rings in every process at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listen(self, channel: str) -> AbstractAsyncContextManager[SimulationRing]:
        return self._listen(channel)

    @asynccontextmanager
    async def _listen(self, channel: str) -> AsyncIterator[SimulationRing]:
        event = asyncio.Event()
        self._database.rung.setdefault(channel, []).append(event)
        yield SimulationRing(event)

    async def close(self) -> None: ...


class SimulationRing:
    """One listener's side."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    async def wait(self, timeout: float) -> bool:
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class SimulationOutbox:
    """`ports.outbox.Outbox`."""

    def __init__(self, database: Database, wire: Wire) -> None:
        self._database = database
        self._wire = wire

    async def list_pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        async def pending() -> list[PendingRecord]:
            return [row for id_, row in sorted(self._database.outbox.items()) if id_ not in beside][:limit]

        return await self._wire.call("outbox.pending", pending)

    async def forget(self, ids: Sequence[int]) -> None:
        async def forget() -> None:
            for each in ids:
                self._database.outbox.pop(each, None)

        await self._wire.call(f"outbox.forget {len(ids)}", forget)

    async def advance(self, last: int) -> bool:
        """Never restored from a backup."""
        return False


class Positioned:
    """What both intakes' tables have beside them."""

    def __init__(self, database: Database, wire: Wire) -> None:
        self._database = database
        self._wire = wire

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        async def positions() -> dict[int, int]:
            return {number: self._database.positions.get((topic, number), 0) for number in range(partitions)}

        return await self._wire.call(f"positions {topic}", positions)


class SimulationJobs(Positioned):
    """`IntakeStore[Satisfaction]`."""

    async def take(self, topic: str, batches: Sequence[IntakeBatch[ReadyJobRow]], *, now: datetime) -> IntakeResult:
        async def take() -> IntakeResult:
            held = self._database.held(topic, batches)
            new = [row for batch in held for row in batch.rows if row.job not in self._database.jobs]
            stored = {row.job: StoredJob(row, not self._stands(row)) for row in new}
            self._database.jobs.update(stored)
            gone = sum(job.obsolete for job in stored.values())
            return IntakeResult(frozenset(batch.partition for batch in held), len(stored), gone)

        return await self._wire.call("jobs.take", take)

    def _stands(self, row: ReadyJobRow) -> bool:
        record = self._database.schedules.get(ScheduleRef.parse(row.schedule))
        return (
            record is not None
            and record.exists
            and record.oldest_valid_generation <= row.generation <= record.generation
        )


class SimulationWakes(Positioned):
    """`WakeStore` and `IntakeStore[WakeRequest]`."""

    async def take(self, topic: str, batches: Sequence[IntakeBatch[WakeUpRequest]], *, now: datetime) -> IntakeResult:
        async def take() -> IntakeResult:
            held = self._database.held(topic, batches)
            for request in (row for batch in held for row in batch.rows):
                self._request(request, now)
            self._database.notify(notifier.TIMERS)
            return IntakeResult(frozenset(batch.partition for batch in held), sum(len(batch.rows) for batch in held), 0)

        return await self._wire.call("wakes.take", take)

    def _request(self, request: WakeUpRequest, now: datetime) -> None:
        wake = request.wake
        place = (wake.schedule, wake.cell)
        if wake.at is None or not self._database.exists(str(wake.schedule)):
            self._database.wakes.pop(place, None)
            return
        woken = Woken(wake.schedule, wake.generation, wake.cell, wake.at)
        due_at = send_at(wake.at, logged_at=request.logged_at, now=now)
        self._database.wakes[place] = StoredWake(woken, due_at)

    async def fire(self, *, now: datetime, limit: int, record: WakeRecord) -> int:
        async def fire() -> int:
            due = sorted((row.due_at, place[1], str(place[0]), place) for place, row in self._database.wakes.items())
            fired = [place for at, _, _, place in due if at <= now][:limit]
            woken = [self._database.wakes.pop(place).woken for place in fired]
            records = [record(each, self._database.schedules[each.schedule].affinity) for each in woken]
            self._database.committed(self._database.numbered(records))
            return len(fired)

        return await self._wire.call("wakes.fire", fire)

    async def next_due_at(self) -> datetime | None:
        async def next_due() -> datetime | None:
            return min((row.due_at for row in self._database.wakes.values()), default=None)

        return await self._wire.call("wakes.next_due", next_due)


class SimulationTimers:
    """`TimerStore`."""

    def __init__(self, database: Database, wire: Wire) -> None:
        self._timers = database.timers
        self._database = database
        self._wire = wire

    async def fire(self, *, now: datetime, limit: int, decide: Callable[[DueTimer], Firing]) -> int:
        async def fire() -> int:
            due = sorted((timer.due_at, str(place[0]), place[1], place) for place, timer in self._timers.items())
            claimed = [place for at, _, _, place in due if at <= now][:limit]
            for place in claimed:
                timer = self._timers.pop(place)
                firing = decide(timer)
                if firing.next_at is not None:
                    self._timers[place] = replace(timer, due_at=firing.next_at, tick_at=firing.tick_at)
                self._database.committed(self._database.numbered(firing.records))
            return len(claimed)

        return await self._wire.call("timers.fire", fire)

    async def next_due_at(self) -> datetime | None:
        async def next_due() -> datetime | None:
            return min((timer.due_at for timer in self._timers.values()), default=None)

        return await self._wire.call("timers.next_due", next_due)

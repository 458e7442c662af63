"""PostgreSQL in a few dictionaries: what the loops store, each call a transaction because nothing interrupts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Woken
from streamsched.domain.waking import send_at
from streamsched.ports import bell
from streamsched.ports.catalog import ScheduleRecord
from streamsched.ports.clock import Clock
from streamsched.ports.intake import Batch, Satisfaction, Taken
from streamsched.ports.leases import Lease, View, Worker
from streamsched.ports.outbox import OutboxRecord, PendingRecord
from streamsched.ports.timers import DueTimer, Firing
from streamsched.ports.wakes import WakeRequest
from tests.simulation.wire import Wire


class StoredJob(NamedTuple):
    """A row of the jobs."""

    satisfaction: Satisfaction
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
    """The tables. `rung` has those who wait for a bell."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.schedules: dict[ScheduleRef, ScheduleRecord] = {}
        self.outbox: dict[int, PendingRecord] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.jobs: dict[str, StoredJob] = {}
        self.wakes: dict[tuple[ScheduleRef, str], StoredWake] = {}
        self.leases: dict[str, StoredLease] = {}
        self.workers: dict[str, datetime] = {}
        self.rung: dict[str, list[asyncio.Event]] = {}
        self._ids = 0

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
            self.ring(bell.OUTBOX)

    def ring(self, channel: str) -> None:
        for event in self.rung.get(channel, []):
            event.set()

    def held(self, topic: str, batches: Sequence[Batch[Any]]) -> list[Batch[Any]]:
        """The batches that count; their positions are where they end now."""
        held = [each for each in batches if self.positions.get((topic, each.partition), 0) == each.start]
        self.positions.update({(topic, each.partition): each.next for each in held})
        return held

    def exists(self, ref: str) -> bool:
        record = self.schedules.get(ScheduleRef.parse(ref))
        return record is not None and record.exists


class SimulationBell:
    """`ports.bell.Bell`: rings in every process at once."""

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

    async def pending(self, *, limit: int) -> Sequence[PendingRecord]:
        async def pending() -> list[PendingRecord]:
            return [row for _, row in sorted(self._database.outbox.items())][:limit]

        return await self._wire.call("outbox.pending", pending)

    async def forget(self, ids: Sequence[int]) -> None:
        async def forget() -> None:
            for each in ids:
                self._database.outbox.pop(each, None)

        await self._wire.call(f"outbox.forget {len(ids)}", forget)


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

    async def take(self, topic: str, batches: Sequence[Batch[Satisfaction]], *, now: datetime) -> Taken:
        async def take() -> Taken:
            held = self._database.held(topic, batches)
            new = [row for batch in held for row in batch.rows if row.job not in self._database.jobs]
            stored = {row.job: StoredJob(row, not self._stands(row)) for row in new}
            self._database.jobs.update(stored)
            gone = sum(job.obsolete for job in stored.values())
            return Taken(frozenset(batch.partition for batch in held), len(stored), gone)

        return await self._wire.call("jobs.take", take)

    def _stands(self, row: Satisfaction) -> bool:
        record = self._database.schedules.get(ScheduleRef.parse(row.schedule))
        return record is not None and record.exists and record.stands_from <= row.generation <= record.generation


class SimulationWakes(Positioned):
    """`WakeStore` and `IntakeStore[WakeRequest]`."""

    async def take(self, topic: str, batches: Sequence[Batch[WakeRequest]], *, now: datetime) -> Taken:
        async def take() -> Taken:
            held = self._database.held(topic, batches)
            for request in (row for batch in held for row in batch.rows):
                self._request(request, now)
            self._database.ring(bell.TIMERS)
            return Taken(frozenset(batch.partition for batch in held), sum(len(batch.rows) for batch in held), 0)

        return await self._wire.call("wakes.take", take)

    def _request(self, request: WakeRequest, now: datetime) -> None:
        wake = request.wake
        place = (wake.schedule, wake.cell)
        if wake.at is None or not self._database.exists(str(wake.schedule)):
            self._database.wakes.pop(place, None)
            return
        woken = Woken(wake.schedule, wake.generation, wake.cell, wake.at)
        due_at = send_at(wake.at, logged_at=request.logged_at, now=now)
        self._database.wakes[place] = StoredWake(woken, due_at)

    async def fire(self, *, now: datetime, limit: int, record: Callable[[Woken], OutboxRecord]) -> int:
        async def fire() -> int:
            due = sorted((row.due_at, place[1], str(place[0]), place) for place, row in self._database.wakes.items())
            fired = [place for at, _, _, place in due if at <= now][:limit]
            records = [record(self._database.wakes.pop(place).woken) for place in fired]
            self._database.committed(self._database.numbered(records))
            return len(fired)

        return await self._wire.call("wakes.fire", fire)

    async def next_due(self) -> datetime | None:
        async def next_due() -> datetime | None:
            return min((row.due_at for row in self._database.wakes.values()), default=None)

        return await self._wire.call("wakes.next_due", next_due)


class NoTimers:
    """`TimerStore` of an installation without cron."""

    async def fire(self, *, now: datetime, limit: int, decide: Callable[[DueTimer], Firing]) -> int:
        return 0

    async def next_due(self) -> datetime | None:
        return None


class SimulationLeases:
    """`ports.leases.Leases`."""

    def __init__(self, database: Database, wire: Wire) -> None:
        self._database = database
        self._wire = wire

    async def beat(self, worker: Worker, held: Mapping[str, int], ttl: timedelta) -> View:
        async def beat() -> View:
            now = self._database.clock.now()
            self._database.workers[worker.id] = now
            self._renew(held, worker.id, now + ttl)
            alive = sorted(name for name, seen in self._database.workers.items() if seen > now - ttl)
            leases = [
                Lease(name, row.owner, row.epoch, (row.expires_at - now).total_seconds(), row.wanted_by)
                for name, row in sorted(self._database.leases.items())
            ]
            return View(tuple(alive), tuple(leases))

        return await self._wire.call("leases.beat", beat)

    async def claim(self, names: Sequence[str], owner: str, ttl: timedelta) -> Mapping[str, int]:
        async def claim() -> dict[str, int]:
            now, got = self._database.clock.now(), dict[str, int]()
            for name in names:
                row = self._database.leases.get(name)
                if row is None or row.expires_at <= now or row.owner == owner:
                    got[name] = row.epoch + 1 if row else 1
                    self._database.leases[name] = StoredLease(owner, got[name], now + ttl)
            return got

        return await self._wire.call(f"leases.claim {','.join(names)}", claim)

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        async def renew() -> frozenset[str]:
            return self._renew(held, owner, self._database.clock.now() + ttl)

        return await self._wire.call("leases.renew", renew)

    async def want(self, names: Sequence[str], worker: str) -> None:
        async def want() -> None:
            for name in names:
                row = self._database.leases.get(name)
                if row is not None and row.owner != worker and row.expires_at > self._database.clock.now():
                    row.wanted_by = worker

        await self._wire.call("leases.want", want)

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        async def release() -> None:
            self._renew(held, owner, self._database.clock.now())

        await self._wire.call("leases.release", release)

    async def leave(self, worker: str) -> None:
        async def leave() -> None:
            self._database.workers.pop(worker, None)

        await self._wire.call("leases.leave", leave)

    def _renew(self, held: Mapping[str, int], owner: str, until: datetime) -> frozenset[str]:
        kept: set[str] = set()
        for name, epoch in held.items():
            row = self._database.leases.get(name)
            if row is not None and (row.owner, row.epoch) == (owner, epoch):
                row.expires_at = until
                kept.add(name)
        return frozenset(kept)

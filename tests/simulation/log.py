"""The log as a process of the simulation sees it: the memory broker at the other end of a wire."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.log.topics import CHANGELOGS, POSITION_KEY, RELAY_POSITION
from streamsched.ports.broker import CatchUpRead, Chunk, Outgoing, Reader, TopicPartition, Writer
from tests.simulation.loop import SimulationLoop
from tests.simulation.wire import Wire
from tests.support.broker_proxy import BrokerThrough

_BEGAN: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
_VISIBLE_S: Final = 1.0


class SimulationClock:
    """`ports.clock.Clock` of virtual time: noon of a day, and the seconds since."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return _BEGAN + timedelta(seconds=self._loop.time())

    @property
    def in_doubt(self) -> bool:
        return False


class Bug(StrEnum):
    """What a careless author might have written; switches of this double, so that the product need not have them."""

    POSITION_APART = "position outside the transaction"
    NO_FENCE = "no fence"
    TABLE_KEPT = "table kept after an aborted turn"
    OUTBOX_POSITION = "outbox position not stored"
    EARLY_OPENING = "name taken before its last commit is visible everywhere"
    NOT_CAUGHT_UP = "events judged before the changes that were there"


@dataclass(eq=False)
class Part:
    """What one append or commit has for one partition: shown once it is marked and nothing unmarked is before it."""

    records: Sequence[Outgoing]
    marked: bool
    shown: bool = False


class WatchedLog(MemoryLog):
    """A memory log that shows every append to a watcher before it is made. A commit becomes visible at one moment, as
    in PostgreSQL, or partition after partition, as in Kafka, which marks the end of a transaction in each of them and
    holds back all that came after it until then."""

    def __init__(self, clock: SimulationClock, watch: Callable[[Sequence[Outgoing]], None], rng: random.Random) -> None:
        super().__init__(clock)
        self._watch = watch
        self._rng = rng
        self._mark_s = rng.choice((0.0, 0.0005, 0.02, 0.2))
        #: In order, what is not shown yet of each partition.
        self.held: defaultdict[TopicPartition, deque[Part]] = defaultdict(deque)
        #: The commits that are certain and not marked everywhere, by their writers' names.
        self._marking: dict[str, asyncio.Future[None]] = {}

    def append(self, records: Sequence[Outgoing]) -> None:
        self._watch(records)
        self._hold(records, marked=True)

    async def commit(self, name: str, records: Sequence[Outgoing]) -> None:
        """As the Kafka driver's: it returns when all of it is shown, or after a second."""
        if not self._mark_s:
            self.append(records)
            return
        self._watch(records)
        parts = self._hold(records, marked=False)
        marking = self._marking[name] = asyncio.get_running_loop().create_future()
        for at in self._rng.sample(list(parts), len(parts)):
            await asyncio.sleep(self._rng.expovariate(1 / self._mark_s))
            parts[at].marked = True
            self._show(at)
        if self._marking[name] is marking:  # without a fence another commit of this name may be under way
            del self._marking[name]
        marking.set_result(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_VISIBLE_S):
                while not all(part.shown for part in parts.values()):
                    await self.grown.wait()

    def certain_end(self, at: TopicPartition) -> int:
        """Where a partition ends once all that is certain is shown."""
        return self.partition(*at).end + sum(len(part.records) for part in self.held[at])

    async def settled(self, name: str) -> None:
        """Until what a writer of this name has committed is marked everywhere."""
        if (marking := self._marking.get(name)) is not None:
            await marking

    def _hold(self, records: Sequence[Outgoing], *, marked: bool) -> Mapping[TopicPartition, Part]:
        by_partition: defaultdict[TopicPartition, list[Outgoing]] = defaultdict(list)
        for record in records:
            self.partition(record.topic, record.partition)
            by_partition[TopicPartition(record.topic, record.partition)].append(record)
        parts = {at: Part(some, marked) for at, some in by_partition.items()}
        for at, part in parts.items():
            self.held[at].append(part)
            self._show(at)
        return parts

    def _show(self, at: TopicPartition) -> None:
        held = self.held[at]
        while held and held[0].marked:
            part = held.popleft()
            super().append(part.records)
            part.shown = True


class SimulationReader:
    """A reader of a memory log whose reads meet faults when they bring something."""

    def __init__(self, reader: Reader, log: WatchedLog, wire: Wire, bug: Bug | None) -> None:
        self._reader = reader
        self._log = log
        self._wire = wire
        self._bug = bug

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        chunks = await self._reader.read(max_records=max_records, timeout=timeout)
        if chunks:
            try:
                await self._wire.read(f"read {', '.join(f'{c.topic}/{c.partition}' for c in chunks)}")
            except BaseException:  # a read that fails or is cancelled moves no position
                for chunk in chunks:
                    self._reader.seek(TopicPartition(chunk.topic, chunk.partition), chunk.records[0].offset)
                raise
        return chunks

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        """As the Kafka driver's: what unfinished commits hold back is waited for."""
        await self._wire.call("end", lambda: asyncio.sleep(0))
        if self._bug is Bug.NOT_CAUGHT_UP:
            return CatchUpRead((), True)
        end = self._log.certain_end(partition)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._log.partition(*partition).end < end:
                    await self._log.grown.wait()
        read = await self._reader.catch_up(partition, max_records=max_records, timeout=0)
        shown = self._log.partition(*partition).end
        return read._replace(complete=read.complete and shown >= end)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._reader.seek(partition, position)

    async def close(self) -> None:
        await self._reader.close()


class SimulationWriter:
    """A writer over the wire."""

    def __init__(self, log: WatchedLog, name: str, epoch: int, wire: Wire, bug: Bug | None) -> None:
        self._log = log
        self._name = name
        self._epoch = epoch
        self._wire = wire
        self._bug = bug

    async def commit(self, records: Sequence[Outgoing]) -> None:
        name = f"commit {self._name} {len(records)}"
        match self._bug:
            case Bug.POSITION_APART:
                state = [each for each in records if each.key != POSITION_KEY]
                await self._wire.call(name, lambda: self._commit(state))
                if position := [each for each in records if each.key == POSITION_KEY]:
                    await self._wire.call(f"{name}: position", lambda: self._commit(position))
            case Bug.OUTBOX_POSITION:
                kept = [each for each in records if each.topic != RELAY_POSITION]
                await self._wire.call(name, lambda: self._commit(kept))
            case Bug.TABLE_KEPT:
                await self._kept(name, records)
            case _:
                await self._wire.call(name, lambda: self._commit(records))

    async def _kept(self, name: str, records: Sequence[Outgoing]) -> None:
        """The next life finds the tables as the aborted turn left them, beside the positions of the turn before."""
        done: list[bool] = []

        async def commit() -> None:
            await self._commit(records)
            done.append(True)

        try:
            await self._wire.call(name, commit)
        except UnavailableError:
            if not done and self._log.epochs[self._name] == self._epoch:
                self._log.append([each for each in records if each.topic in CHANGELOGS and each.key != POSITION_KEY])
            raise

    async def _commit(self, records: Sequence[Outgoing]) -> None:
        await asyncio.sleep(0)
        if self._log.epochs[self._name] != self._epoch and self._bug is not Bug.NO_FENCE:
            raise FencedError(self._name)
        await self._log.commit(self._name, records)

    async def close(self) -> None: ...


class SimulationBroker(BrokerThrough):
    """One process's view of the log."""

    def __init__(self, log: WatchedLog, wire: Wire, *, bug: Bug | None = None) -> None:
        super().__init__(MemoryBroker(log))
        self._log = log
        self._wire = wire
        self._bug = bug

    async def append(self, records: Sequence[Outgoing]) -> None:
        await self._wire.call("append", lambda: self.inner.append(records))

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self._wire.call("ends", lambda: self.inner.ends(partitions))

    async def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        reader = await self._wire.call("reader", lambda: self.inner.reader(positions))
        return SimulationReader(reader, self._log, self._wire, self._bug)

    async def writer(self, name: str) -> Writer:
        return await self._wire.call(f"writer {name}", lambda: self._writer(name))

    async def _writer(self, name: str) -> SimulationWriter:
        epoch = self._log.epochs[name] = self._log.epochs.get(name, 0) + 1
        if self._bug is not Bug.EARLY_OPENING:
            await self._log.settled(name)
        return SimulationWriter(self._log, name, epoch, self._wire, self._bug)

"""The broker contract is worth its name only if it catches a broken driver: each of these breaks one promise."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from streamsched_brokers.memory import (
    CAPABILITIES,
    MemoryBroker,
    MemoryLog,
    MemoryPartition,
    MemoryReader,
    MemoryWriter,
)

from streamsched.domain.errors import ConfigurationError, FencedError, StreamschedError
from streamsched.ports.broker import Broker, CatchUpRead, Chunk, Outgoing, Record, TopicPartition
from streamsched.testing.broker_contract import BrokerContract, Log

DURABLE = CAPABILITIES.__class__(fenced=True, transactional=True, durable=True, compaction=True, shared=True)

#: Two processes that append at the same moment meet in the middle: what a driver without locks does.
_PAUSE = 0.002


class Losing(MemoryLog):
    """Loses the last record of an append of three."""

    def append(self, records: Sequence[Outgoing]) -> None:
        super().append(records[:-1] if len(records) == 3 else records)


class Doubling(MemoryLog):
    def append(self, records: Sequence[Outgoing]) -> None:
        super().append([*records, records[-1]] if len(records) > 400 else records)


class Reordering(MemoryLog):
    """Groups the records of one append by key."""

    def append(self, records: Sequence[Outgoing]) -> None:
        super().append(sorted(records, key=lambda record: record.value or b"", reverse=True))


class ForgettingKeys(MemoryLog):
    def append(self, records: Sequence[Outgoing]) -> None:
        super().append([record._replace(key=record.key or None) for record in records])


class Halving(MemoryWriter):
    """Shows the records of one partition before those of another."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        for record in records:
            await super().commit([record])
            await asyncio.sleep(_PAUSE)


class TakesBack(MemoryWriter):
    """Shows a commit before it is certain, as to readers who do not ask for committed records alone."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await super().commit(records)
        try:
            await asyncio.sleep(10 * _PAUSE)
        except asyncio.CancelledError:
            for record in records:
                part = self._log.partition(record.topic, record.partition)
                part.records = [each for each in part.records if each.value != record.value]
            raise


class Unfenced(MemoryWriter):
    async def commit(self, records: Sequence[Outgoing]) -> None:
        self._log.append(records)


class FencedTooLate(MemoryWriter):
    """Checks the fence, then writes: when it was fenced meanwhile, long after the newer one has looked."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await super().commit([])
        await asyncio.sleep(_PAUSE)
        with suppress(FencedError):
            return await super().commit(records)
        await asyncio.sleep(100 * _PAUSE)
        return self._log.append(records)


class TakesItsNameBack(MemoryWriter):
    """Opens itself anew once it has said that it was fenced."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        try:
            await super().commit(records)
        except FencedError:
            self.__init__(self._log, self._name)
            raise


class Lingering(MemoryWriter):
    """What it was given to write is written, though its caller gave up and another writer has the name."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        asyncio.get_running_loop().call_later(30 * _PAUSE, self._log.append, records)
        await asyncio.sleep(31 * _PAUSE)


class NotYetVisible(MemoryWriter):
    """Acknowledges before anyone can see it."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await super().commit([])
        asyncio.get_running_loop().call_later(_PAUSE, self._log.append, records)


class OutOfOrder(MemoryWriter):
    """Takes its offsets first and shows the records later: another writer's higher ones may be visible before."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await super().commit([])
        taken: list[tuple[MemoryPartition, Record]] = []
        for record in records:
            part = self._log.partition(record.topic, record.partition)
            taken.append((part, Record(part.end, record.key, record.value, 0)))
            part.end += 1
        await asyncio.sleep(_PAUSE)
        for part, record in taken:
            part.records.insert(part.after(record.offset), record)
        self._log.append([])


class Starving(MemoryReader):
    """Serves the first partition that has something."""

    def _take(self, max_records: int) -> list[Chunk]:
        positions = self._positions
        for at in list(positions):
            self._positions = {at: positions[at]}
            chunks = super()._take(max_records)
            positions |= self._positions
            self._positions = positions
            if chunks:
                return chunks
        return []


class Greedy(MemoryReader):
    """Knows no limit."""

    def _take(self, max_records: int) -> list[Chunk]:
        return super()._take(1_000_000)


class Sleepy(MemoryReader):
    """Looks twice a second."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        if not (chunks := self._take(max_records)):
            await asyncio.sleep(min(timeout, 0.5))
            chunks = self._take(max_records)
        return chunks


class Impatient(MemoryReader):
    """Says "nothing" without waiting for it."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        return await super().read(max_records=max_records, timeout=0)


class Careless(MemoryReader):
    """Moves on before it hands over: a cancelled read takes its records along."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        chunks = await super().read(max_records=max_records, timeout=timeout)
        await asyncio.sleep(_PAUSE)
        return chunks


class LooksBack(MemoryReader):
    """Answers from its last look, and looks again for the next time."""

    _kept: Sequence[Chunk] = ()

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        kept, self._kept = self._kept, await super().read(max_records=max_records, timeout=timeout)
        return list(kept)


class RunsAhead(MemoryReader):
    """Says that it has read more than it returned."""

    def _take(self, max_records: int) -> list[Chunk]:
        return [chunk._replace(next_position=chunk.next_position + 2) for chunk in super()._take(max_records)]


class OffByOne(MemoryReader):
    """Starts after its position."""

    def seek(self, partition: TopicPartition, position: int) -> None:
        super().seek(partition, position + 1)


class NeverBehind(MemoryReader):
    """Says that it has caught up, and has not looked."""

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        return CatchUpRead((), True)


class KeepsOldest(MemoryPartition):
    def compact(self, now, grace) -> None:
        first: dict[bytes | None, Record] = {}
        for record in self.records:
            first.setdefault(record.key, record)
        self.records = list(first.values())


class Renumbers(MemoryPartition):
    def compact(self, now, grace) -> None:
        super().compact(now, grace)
        self.records = [record._replace(offset=index) for index, record in enumerate(self.records)]


class SortsByKey(MemoryPartition):
    def compact(self, now, grace) -> None:
        super().compact(now, grace)
        self.records.sort(key=lambda record: record.key or b"")


class BuriesAtOnce(MemoryPartition):
    """Drops tombstones with what they cover."""

    def compact(self, now, grace) -> None:
        super().compact(now, grace)
        self.records = [record for record in self.records if record.value is not None]


class ExpiresAll(MemoryPartition):
    def expire(self, oldest, unread) -> None:
        self.records, self.end = [], 0


class Early(MemoryPartition):
    """Takes an hour for nothing."""

    def expire(self, oldest, unread) -> None:
        self.records = self.records[-1:]


def driver(
    *,
    log: type[MemoryLog] = MemoryLog,
    reader: type[MemoryReader] = MemoryReader,
    writer: type[MemoryWriter] = MemoryWriter,
    partition: type[MemoryPartition] = MemoryPartition,
) -> type[MemoryBroker]:
    """A memory driver with one part replaced."""

    class Broken(MemoryBroker):
        def __init__(self, _: MemoryLog, shared: dict[type, MemoryLog]) -> None:
            super().__init__(shared.setdefault(log, log()))

        async def create_topics(self, specs) -> None:
            await super().create_topics(specs)
            for parts in self._log.topics.values():
                parts[:] = [part if isinstance(part, partition) else partition() for part in parts]

        async def reader(self, positions: Mapping[TopicPartition, int]) -> MemoryReader:
            await super().reader(positions)
            return reader(self._log, positions)

        async def writer(self, name: str) -> MemoryWriter:
            return writer(self._log, name)

    return Broken


class MisreportingEnds(driver()):
    async def ends(self, partitions):
        return {at: end - 1 if end > 1 else end for at, end in (await super().ends(partitions)).items()}


class EndsAtLastRecord(driver()):
    """Counts records instead of offsets."""

    async def ends(self, partitions):
        return {at: len(self._log.partition(*at).records) for at in partitions}


class AcceptsAnyShape(driver()):
    async def create_topics(self, specs) -> None:
        await super().create_topics([spec for spec in specs if spec.name not in self._log.specs])


class KeepsItsRetention(driver()):
    async def create_topics(self, specs) -> None:
        for spec in specs:
            if self._log.specs.get(spec.name, spec).retention != spec.retention:
                raise ConfigurationError(spec.name)
        await super().create_topics(specs)


class BelievesReports(driver()):
    """Looks for the topic of a position it is given."""

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        await self.ends(list(positions))


class Forgetful(driver()):
    """Says it is durable, and keeps everything in its process."""

    @property
    def capabilities(self):
        return DURABLE

    async def close(self) -> None:
        self._log.topics.clear()
        self._log.specs.clear()


MUTANTS: Mapping[str, tuple[type[MemoryBroker], str]] = {
    "loses": (driver(log=Losing), "appends_keep_their_order"),
    "doubles": (driver(log=Doubling), "a_large_append_is_read_completely_in_small_reads"),
    "reorders": (driver(log=Reordering), "one_append_to_many_partitions_keeps_the_order_of_each"),
    "mistakes empty for none": (driver(log=ForgettingKeys), "records_are_read_as_they_were_written"),
    "shows half": (driver(writer=Halving), "a_commit_seen_in_part_becomes_visible_completely"),
    "takes what answers it in between": (
        driver(writer=Halving),
        "a_reply_to_a_part_of_a_commit_follows_all_of_it",
    ),
    "shows what it takes back": (driver(writer=TakesBack), "a_commit_seen_in_part_becomes_visible_completely"),
    "tells an end it takes back": (driver(writer=TakesBack), "records_below_a_reported_end_do_not_change"),
    "commits what it can": (driver(writer=Halving), "a_failed_commit_shows_nothing"),
    "knows no fence": (driver(writer=Unfenced), "an_older_writer_is_fenced_and_shows_nothing"),
    "lets all in": (driver(writer=Unfenced), "of_writers_opened_concurrently_one_remains"),
    "fences too late": (driver(writer=FencedTooLate), "nothing_of_the_old_writer_appears_after_the_new_one_is_open"),
    "takes its name back": (driver(writer=TakesItsNameBack), "a_fenced_writer_is_refused_at_every_attempt"),
    "leaves half behind": (driver(writer=Halving), "a_cancelled_commit_shows_all_or_nothing"),
    "writes after it was given up": (driver(writer=Lingering), "a_cancelled_commit_shows_all_or_nothing"),
    "looks back": (driver(reader=LooksBack), "a_read_without_timeout_returns_acknowledged_records"),
    "runs ahead": (driver(reader=RunsAhead), "a_reader_opened_at_a_former_position_continues_exactly"),
    "keeps its retention": (KeepsItsRetention, "another_retention_is_applied"),
    "believes reports": (BelievesReports, "reporting_positions_changes_nothing"),
    "acknowledges too early": (driver(writer=NotYetVisible), "a_commit_is_visible_everywhere_when_it_returns"),
    "shows offsets out of order": (
        driver(writer=OutOfOrder),
        "a_tail_beside_concurrent_writers_misses_and_reorders_nothing",
    ),
    "starves": (driver(reader=Starving), "a_backlog_does_not_starve_the_other_partitions"),
    "starves beside one that grows": (
        driver(reader=Starving),
        "a_partition_that_grows_all_the_time_does_not_starve_another",
    ),
    "knows no limit": (driver(reader=Greedy), "reads_stay_near_their_limit"),
    "wakes late": (driver(reader=Sleepy), "a_waiting_reader_is_woken_by_another_process"),
    "does not wait": (driver(reader=Impatient), "a_read_without_records_is_empty_after_the_timeout"),
    "forgets when cancelled": (driver(reader=Careless), "a_cancelled_read_loses_nothing"),
    "believes that it has caught up": (
        driver(reader=NeverBehind),
        "catching_up_waits_for_no_more_than_it_may_return",
    ),
    "seeks beside": (driver(reader=OffByOne), "a_seek_takes_effect_after_an_empty_read"),
    "keeps the oldest": (driver(partition=KeepsOldest), "partitions_are_compacted_independently"),
    "renumbers": (driver(partition=Renumbers), "the_end_can_be_reached_after_cleaning"),
    "compacts out of order": (
        driver(partition=SortsByKey),
        "compaction_keeps_the_newest_of_each_key_in_order_at_its_offset",
    ),
    "buries at once": (driver(partition=BuriesAtOnce), "a_reader_in_progress_reads_every_tombstone"),
    "gives offsets twice": (driver(partition=ExpiresAll), "offsets_continue_after_everything_expired"),
    "cleans too early": (driver(partition=Early), "nothing_expires_before_its_retention"),
    "misreports ends": (MisreportingEnds, "ends_begin_at_zero_and_follow_what_becomes_visible"),
    "counts instead of ends": (EndsAtLastRecord, "the_end_can_be_reached_after_cleaning"),
    "accepts any shape": (AcceptsAnyShape, "another_number_of_partitions_is_refused_and_both_are_named"),
    "forgets": (Forgetful, "records_and_ends_survive"),
}


async def keeps(promise: str, mutant: type[MemoryBroker], within_s: float = 3.0) -> bool:
    """Whether a test of the contract passes for a driver, by `within_s` seconds."""
    shared: dict[type, MemoryLog] = {}

    async def opens() -> Broker:
        return mutant(MemoryLog(), shared)  # type: ignore[call-arg]

    log = Log(opens, await opens())
    try:
        async with asyncio.timeout(within_s):
            await getattr(BrokerContract(), f"test_{promise}")(log)
    except (AssertionError, StreamschedError, TimeoutError, pytest.fail.Exception):
        return False
    finally:
        await log.close()
    return True


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_driver_is_caught_that(name: str) -> None:
    mutant, promise = MUTANTS[name]

    assert not await keeps(promise, mutant)


@pytest.mark.parametrize("promise", sorted({promise for _, promise in MUTANTS.values()} - {"records_and_ends_survive"}))
async def test_an_honest_driver_passes(promise: str) -> None:
    assert await keeps(promise, driver(), within_s=60.0), "however busy the machine is"

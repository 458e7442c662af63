"""Reads partitions from explicit positions with its own fetch requests (ADR 3).

aiokafka's consumer is not used: it hides gaps in the offsets, so that a reader cannot know when it has reached an end;
it serves one partition after the other, however long their backlogs; and an empty result does not say whether the
partitions had no records or were not fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final

from aiokafka import errors as kafka
from aiokafka.protocol.fetch import FetchRequest

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import CatchUpRead, Chunk, TopicPartition
from streamsched_brokers.kafka.batches import Fetched, committed_records
from streamsched_brokers.kafka.failure import AWAY, RetryBudget, translate_errors
from streamsched_brokers.kafka.link import CommitPoint, Isolation, KafkaConnection

#: The limits of one fetch, per partition and in total. A larger batch is returned whole, alone.
PARTITION_BYTES: Final = 4 << 20
FETCH_BYTES: Final = 32 << 20
#: How long a broker holds a fetch that finds no records.
LONG_POLL_SECONDS: Final = 0.5
#: How long records already fetched wait for responses about other partitions.
_OTHERS_SECONDS: Final = 0.05
#: From one fetch to the next while an unfinished transaction holds records back.
_UNFINISHED_SECONDS: Final = 0.002

_Answer = dict[TopicPartition, Fetched | BaseException]


class KafkaReader:
    """Keeps the positions; they advance only by the records that `read` returns.

    At most one fetch per broker is in progress. It is independent of calls of `read`: a cancelled call leaves it, and
    the next one receives its records. Fetched records beyond `max_records` are kept and returned first by the next
    call.
    """

    def __init__(
        self, link: KafkaConnection, positions: Mapping[TopicPartition, int], *, closed: Callable[[KafkaReader], None]
    ) -> None:
        """`closed`: called when the reader is closed."""
        self._link = link
        self._closed = closed
        self._positions = {at: max(0, position) for at, position in positions.items()}
        #: The order of partitions in a fetch: those that returned records last are at the end. Kafka returns a batch
        #: larger than the limit only for the first partition with records.
        self._order = list(self._positions)
        self._kept: dict[TopicPartition, Fetched] = {}
        #: Of what is kept: positions that Kafka has deleted.
        self._deleted: dict[TopicPartition, int] = {}
        self._asked: dict[int, tuple[asyncio.Task[_Answer], frozenset[TopicPartition]]] = {}

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        budget = RetryBudget()
        unanswered = set(self._positions)
        with translate_errors():
            while True:
                try:
                    leaderless = self._ask(min(LONG_POLL_SECONDS, deadline - loop.time()))
                    unanswered -= await self._answers(leaderless)
                except AWAY as failure:
                    self._link.request_metadata()
                    if not self._kept:
                        await budget.after(failure)
                        await self._link.refresh_metadata()
                if chunks := self._hand_over(max_records):
                    return chunks
                if loop.time() >= deadline and not unanswered:
                    return []

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        loop = asyncio.get_running_loop()
        deadline, start = loop.time() + timeout, self._positions[partition]
        chunks: list[Chunk] = []
        with translate_errors():
            end = await self._end(partition)
            try:
                while self._positions[partition] < end:
                    if partition in self._kept and max_records > 0:
                        chunks.append(self._take(partition, max_records))
                        max_records -= len(chunks[-1].records)
                    elif max_records <= 0 or (left := deadline - loop.time()) <= 0:
                        return CatchUpRead(chunks, False)
                    elif partition not in await self._answers(self._ask(min(left, _OTHERS_SECONDS)), left):
                        await asyncio.sleep(_UNFINISHED_SECONDS)
            except AWAY:
                self._link.request_metadata()
                return CatchUpRead(chunks, False)
            except BaseException:
                self.seek(partition, start)
                raise
        return CatchUpRead(chunks, True)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._positions[partition] = max(0, position)
        self._kept.pop(partition, None)
        self._deleted.pop(partition, None)

    async def close(self) -> None:
        self._closed(self)
        tasks = [task for task, _ in self._asked.values()]
        self._asked = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.close()

    def _ask(self, wait: float) -> BaseException | None:
        """Starts a fetch at every broker that has none in progress, for its partitions without kept records. Returns an
        error when a partition has no leader.
        """
        asked = {at for _, partitions in self._asked.values() for at in partitions}
        needed = [at for at in self._order if at not in self._kept and at not in asked]
        wait = 0.0 if self._kept else max(0.0, wait)
        led, leaderless = self._link.by_leader(needed)
        for node, partitions in led.items():
            if node not in self._asked:
                positions = {at: self._positions[at] for at in partitions}
                task = asyncio.create_task(self._fetch(node, positions, wait), name="streamsched-kafka-fetch")
                self._asked[node] = task, frozenset(partitions)
        return leaderless

    async def _answers(self, failure: BaseException | None, timeout: float | None = None) -> set[TopicPartition]:
        """Waits for a response and keeps its records. Returns the partitions answered. `failure`: an earlier error;
        `timeout`: in seconds, None waits as long as a broker holds a fetch.

        Raises:
            KafkaError: the error of a partition, or `failure`; records of other partitions are kept.
        """
        tasks = {task for task, _ in self._asked.values()}
        if self._kept and tasks:
            await asyncio.wait(tasks, timeout=_OTHERS_SECONDS)
        elif tasks:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        answered: set[TopicPartition] = set()
        for node, (task, _) in list(self._asked.items()):
            if not task.done():
                continue
            del self._asked[node]
            for at, found in task.result().items():
                if isinstance(found, BaseException):
                    failure = found
                elif found.start == self._positions[at]:  # otherwise discarded, because of a `seek` during the fetch
                    answered.add(at)
                    if found.next_position > found.start:
                        self._kept[at] = found
                        self._order.remove(at)
                        self._order.append(at)
        if failure is not None:
            raise failure
        return answered

    def _hand_over(self, max_records: int) -> list[Chunk]:
        """Up to `max_records` of the kept records, an equal share of each partition."""
        share = max(1, max_records // max(1, len(self._kept)))
        return [self._take(at, share) for at in list(self._kept)]

    def _take(self, at: TopicPartition, most: int) -> Chunk:
        """Up to `most` of the kept records of a partition."""
        _, records, next_position = self._kept[at]
        taken, position = records[:most], next_position
        if len(records) > most:
            position = taken[-1].offset + 1
            self._kept[at] = Fetched(position, records[most:], next_position)
        else:
            del self._kept[at]
        self._positions[at] = position
        return Chunk(at.topic, at.partition, taken, position, self._deleted.pop(at, 0))

    async def _end(self, at: TopicPartition) -> int:
        """Where a partition ends, unfinished transactions included."""
        return (await self._link.offsets([at], CommitPoint.END, Isolation.UNCOMMITTED))[at]

    async def _fetch(self, node: int, positions: Mapping[TopicPartition, int], wait: float) -> _Answer:
        """One fetch at a broker, which waits up to `wait` seconds for the first record: by partition the records, or
        the error.
        """
        address = self._link.address
        topics = [  # a topic may occur more than once, which keeps the order of partitions
            (address.real_name(topic), [(at.partition, positions[at], PARTITION_BYTES) for at in partitions])
            for topic, partitions in groupby(positions, key=lambda at: at.topic)
        ]
        request = FetchRequest(int(wait * 1000), 1, FETCH_BYTES, int(Isolation.COMMITTED), topics)
        found: _Answer = {}
        try:
            answer = await self._link.client.send(node, request)
            for topic, parts in answer.topics:
                for partition, error, *_, aborted, raw in (_plain(part) for part in parts):
                    at = TopicPartition(address.own_name(topic), partition)
                    if error == kafka.OffsetOutOfRangeError.errno:
                        found[at] = await self._out_of_range(at, positions[at])
                    elif error:
                        found[at] = kafka.for_code(error)(f"{topic}/{partition}")
                    else:
                        found[at] = committed_records(raw, aborted or (), positions[at])
        except (*AWAY, UnavailableError) as failure:
            return dict.fromkeys(positions, failure)
        return found

    async def _out_of_range(self, at: TopicPartition, position: int) -> Fetched:
        """Skips records that were deleted before the oldest remaining one.

        Raises:
            UnavailableError: the position is beyond the end: the log has lost acknowledged records, or the topic was
                recreated. Reading from any other position would lose or repeat records.
        """
        beginning = (await self._link.offsets([at], CommitPoint.BEGINNING))[at]
        if position < beginning:
            self._deleted[at] = beginning - position
            return Fetched(position, (), beginning)
        end = await self._end(at)
        if position <= end:
            return Fetched(position, (), position)
        raise UnavailableError(f"{at.topic}/{at.partition} ends at {end}, but was read up to {position} before")


def _plain(part: tuple) -> tuple:
    """(partition, error, …, aborted, bytes) of any version of the response; version 11 has a replica in between."""
    return (*part[:-2], part[-1]) if len(part) == 8 else part

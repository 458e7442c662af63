"""Reads partitions from explicit positions, by fetches of its own.

Not by aiokafka's consumer: that one hides the holes it passes (so nobody can tell when an end is reached), serves
whole partitions in turn however long their backlog, and cannot say whether nothing came or nothing was asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final

from aiokafka import errors as kafka
from aiokafka.protocol.fetch import FetchRequest

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Chunk, TopicPartition
from streamsched_brokers.kafka.batches import Fetched, committed
from streamsched_brokers.kafka.failure import AWAY, Patience, translated
from streamsched_brokers.kafka.link import Isolation, Link, Place

#: What one fetch holds at most, of one partition and in all. A larger batch comes whole, alone.
PARTITION_BYTES: Final = 4 << 20
FETCH_BYTES: Final = 32 << 20
#: How long a broker holds a fetch that finds nothing.
LONG_POLL_SECONDS: Final = 0.5
#: How long partitions that have records wait for the answer about those that may have some.
_COURTESY_SECONDS: Final = 0.05

_Answer = dict[TopicPartition, Fetched | BaseException]


class KafkaReader:
    """Positions live here and nowhere else; they advance only with what `read` returns.

    One fetch is under way for each broker. It belongs to no call of `read`: a cancelled call leaves it, and the next
    one takes what it brings. What was fetched and did not fit is kept and comes first.
    """

    def __init__(
        self, link: Link, positions: Mapping[TopicPartition, int], *, closed: Callable[[KafkaReader], None]
    ) -> None:
        """`closed` is told when it is."""
        self._link = link
        self._closed = closed
        self._positions = {at: max(0, position) for at, position in positions.items()}
        #: Whom to ask about first: those who got something last stand behind those who got nothing. Kafka sends a batch
        #: that is larger than it likes only where nothing stands before it.
        self._turn = list(self._positions)
        self._kept: dict[TopicPartition, Fetched] = {}
        self._asked: dict[int, tuple[asyncio.Task[_Answer], frozenset[TopicPartition]]] = {}

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        patience = Patience()
        unanswered = set(self._positions)
        with translated():
            while True:
                try:
                    leaderless = self._ask(min(LONG_POLL_SECONDS, deadline - loop.time()))
                    unanswered -= await self._answers(leaderless)
                except AWAY as failure:
                    self._link.look()
                    if not self._kept:
                        await patience.after(failure)
                        await self._link.look_around()
                if chunks := self._hand_over(max_records):
                    return chunks
                if loop.time() >= deadline and not unanswered:
                    return []

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._positions[partition] = max(0, position)
        self._kept.pop(partition, None)

    async def close(self) -> None:
        self._closed(self)
        tasks = [task for task, _ in self._asked.values()]
        self._asked = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.close()

    def _ask(self, wait: float) -> BaseException | None:
        """Begins a fetch at every broker that has none under way, for its partitions of which nothing is kept. The
        failure, when one of them has no leader to ask."""
        asked = {at for _, partitions in self._asked.values() for at in partitions}
        hungry = [at for at in self._turn if at not in self._kept and at not in asked]
        wait = 0.0 if self._kept else max(0.0, wait)
        led, leaderless = self._link.by_leader(hungry)
        for node, partitions in led.items():
            if node not in self._asked:
                positions = {at: self._positions[at] for at in partitions}
                task = asyncio.create_task(self._fetch(node, positions, wait), name="streamsched-kafka-fetch")
                self._asked[node] = task, frozenset(partitions)
        return leaderless

    async def _answers(self, failure: BaseException | None) -> set[TopicPartition]:
        """Waits for an answer; keeps what it brought. The partitions it was about. `failure` is what went wrong before.

        Raises:
            KafkaError: what went wrong with one of them; the others' records are kept all the same.
        """
        tasks = {task for task, _ in self._asked.values()}
        if self._kept and tasks:
            await asyncio.wait(tasks, timeout=_COURTESY_SECONDS)
        elif tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        answered: set[TopicPartition] = set()
        for node, (task, _) in list(self._asked.items()):
            if not task.done():
                continue
            del self._asked[node]
            for at, found in task.result().items():
                if isinstance(found, BaseException):
                    failure = found
                elif found.start == self._positions[at]:  # else a seek while we asked, which wins
                    answered.add(at)
                    if found.next_position > found.start:
                        self._kept[at] = found
                        self._turn.remove(at)
                        self._turn.append(at)
        if failure is not None:
            raise failure
        return answered

    def _hand_over(self, max_records: int) -> list[Chunk]:
        """An equal share of what is kept of each partition."""
        chunks: list[Chunk] = []
        share = max(1, max_records // max(1, len(self._kept)))
        for at, (_, records, next_position) in list(self._kept.items()):
            taken, position = records[:share], next_position
            if len(records) > share:
                position = taken[-1].offset + 1
                self._kept[at] = Fetched(position, records[share:], next_position)
            else:
                del self._kept[at]
            self._positions[at] = position
            chunks.append(Chunk(at.topic, at.partition, taken, position))
        return chunks

    async def _fetch(self, node: int, positions: Mapping[TopicPartition, int], wait: float) -> _Answer:
        """What a broker has from these positions on, waiting for the first record; a failure instead where it has none
        for us."""
        prefix = self._link.address.prefix
        topics = [  # one that comes twice keeps the order of partitions
            (prefix + topic, [(at.partition, positions[at], PARTITION_BYTES) for at in partitions])
            for topic, partitions in groupby(positions, key=lambda at: at.topic)
        ]
        request = FetchRequest(int(wait * 1000), 1, FETCH_BYTES, int(Isolation.COMMITTED), topics)
        found: _Answer = {}
        try:
            answer = await self._link.client.send(node, request)
            for topic, parts in answer.topics:
                for partition, error, *_, aborted, raw in (_plain(part) for part in parts):
                    at = TopicPartition(topic.removeprefix(prefix), partition)
                    if error == kafka.OffsetOutOfRangeError.errno:
                        found[at] = await self._out_of_range(at, positions[at])
                    elif error:
                        found[at] = kafka.for_code(error)(f"{topic}/{partition}")
                    else:
                        found[at] = committed(raw, aborted or (), positions[at])
        except (*AWAY, UnavailableError) as failure:
            return dict.fromkeys(positions, failure)
        return found

    async def _out_of_range(self, at: TopicPartition, position: int) -> Fetched:
        """What was cleaned away before the oldest kept record is a hole.

        Raises:
            UnavailableError: the position is past the end: the log has lost records it had acknowledged, or somebody
                made the topic anew. Reading on from anywhere else would lose or repeat.
        """
        beginning = (await self._link.offsets([at], Place.BEGINNING))[at]
        if position < beginning:
            return Fetched(position, (), beginning)
        end = (await self._link.offsets([at], Place.END, Isolation.UNCOMMITTED))[at]
        if position <= end:
            return Fetched(position, (), position)
        raise UnavailableError(f"{at.topic}/{at.partition} ends at {end}, but was read up to {position} before")


def _plain(part: tuple) -> tuple:
    """(partition, error, …, aborted, bytes) of any version of the answer: the eleventh has a replica in between."""
    return (*part[:-2], part[-1]) if len(part) == 8 else part

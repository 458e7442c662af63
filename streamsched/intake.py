"""Intake: a topic of the log taken into a table of PostgreSQL, the position stored beside what was read.

Any number of intakes may read the same partitions: the position's row decides which of them counts, the others go on
where it stands then. Nothing is committed anywhere else, so a crash at any moment repeats or drops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import structlog

from streamsched.attendance import attend
from streamsched.domain.errors import DecodeError
from streamsched.ports.broker import Broker, Chunk, Reader, Record, TopicPartition
from streamsched.ports.clock import Clock
from streamsched.ports.intake import Batch, IntakeStore
from streamsched.ports.letters import dead_letter

log = structlog.get_logger()

#: Seconds until an intake looks again at a partition another one holds this instant.
_HELD: Final = 0.01
#: And for how long a read waits for something to come.
_WAIT: Final = 5.0

Row = TypeVar("Row")


class TopicIntake(Generic[Row]):
    """Reads and stores; belongs to one task. `read` makes a row of a record, or says by `DecodeError` why it cannot:
    then the record goes to the dead letters and the others go on.
    """

    def __init__(
        self,
        topic: str,
        read: Callable[[Record], Row],
        *,
        broker: Broker,
        store: IntakeStore[Row],
        clock: Clock,
        max_records: int = 2000,
    ) -> None:
        self._topic = topic
        self._read = read
        self._broker = broker
        self._store = store
        self._clock = clock
        self._max_records = max_records
        self._partitions = 0
        self._positions: dict[int, int] = {}
        self._reader: Reader | None = None

    async def run(self) -> None:
        """Takes what comes until cancelled; while the log or PostgreSQL is away it waits for them."""
        try:
            await attend(self.look, called="intake", topic=self._topic)
        finally:
            await self.close()

    async def look(self) -> float:
        """One round of `run`; the seconds until the next.

        Raises:
            UnavailableError: as `run_once`.
        """
        await self.run_once(timeout=_WAIT)
        return 0.0

    async def run_once(self, *, timeout: float) -> int:
        """One read, waiting up to `timeout` seconds for something to come, and what it brought stored; returns how
        many rows were stored.

        Raises:
            UnavailableError: the log or PostgreSQL is away; call again, nothing is lost or doubled.
        """
        try:
            if self._reader is None:
                self._reader = await self._open()
            chunks = await self._reader.read(max_records=self._max_records, timeout=timeout)
            return await self._take(self._reader, chunks) if chunks else 0
        except BaseException:
            await self.close()  # what was stored is unknown: start over from the stored positions
            raise

    async def close(self) -> None:
        """Stops reading; `run_once` would start over from the stored positions."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            await reader.close()

    async def _open(self) -> Reader:
        self._partitions = await self._broker.partitions(self._topic)
        self._positions = dict(await self._store.positions(self._topic, self._partitions))
        return await self._broker.reader(
            {TopicPartition(self._topic, partition): position for partition, position in self._positions.items()}
        )

    async def _take(self, reader: Reader, chunks: Sequence[Chunk]) -> int:
        batches = [await self._batch(chunk) for chunk in chunks]
        taken = await self._store.take(self._topic, batches, now=self._clock.now())
        for batch in batches:
            if batch.partition in taken.partitions:
                self._positions[batch.partition] = batch.next
        missed = [batch for batch in batches if batch.partition not in taken.partitions]
        if missed:
            await self._catch_up(reader, missed)
        if taken.stored:
            log.debug("intake.stored", topic=self._topic, rows=taken.stored, obsolete=taken.obsolete)
        return taken.stored

    async def _catch_up(self, reader: Reader, missed: Sequence[Batch[Row]]) -> None:
        """Others were quicker: goes on where they brought the positions."""
        positions = await self._store.positions(self._topic, self._partitions)
        for batch in missed:
            self._positions[batch.partition] = positions[batch.partition]
            reader.seek(TopicPartition(self._topic, batch.partition), positions[batch.partition])
        if any(positions[batch.partition] == batch.start for batch in missed):
            await asyncio.sleep(_HELD)

    async def _batch(self, chunk: Chunk) -> Batch[Row]:
        rows: list[Row] = []
        for record in chunk.records:
            try:
                rows.append(self._read(record))
            except DecodeError as error:
                await self._broker.append([dead_letter(chunk, record, error, partition=chunk.partition)])
                log.error(
                    "intake.dead_letter",
                    topic=self._topic,
                    partition=chunk.partition,
                    offset=record.offset,
                    reason=str(error),
                )
        return Batch(chunk.partition, self._positions[chunk.partition], chunk.next_position, rows)

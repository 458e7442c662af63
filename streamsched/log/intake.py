"""Intake: copies a topic of the log into a table of PostgreSQL, and stores the position in the same transaction.

Several intakes may read the same partitions: a batch is stored only if it starts at the stored position, the others
continue from the new one. No position is kept elsewhere, so a crash neither repeats nor drops records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final, Generic, TypeVar

import structlog

from streamsched.domain.errors import SYSTEMIC, DecodeError, describe_failure
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.log.dead_letters import dead_letter
from streamsched.log.topics import DEAD_LETTER
from streamsched.ports.broker import Broker, Chunk, Reader, Record, TopicPartition
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeBatch, IntakeStore
from streamsched.process.run_forever import run_forever

log = structlog.get_logger()

#: Seconds until an intake retries a partition that another intake has locked.
_HELD: Final = 0.01
#: Seconds one read waits for records.
_WAIT: Final = 5.0

Row = TypeVar("Row")


class TopicIntake(Generic[Row]):
    """Copies one topic; for use by one task. `read` converts a record to a row; a record for which it raises becomes a
    dead letter, in `letters` if that is another log than the topic's. `stored` is given the rows of a batch and when
    they were stored.
    """

    def __init__(
        self,
        topic: str,
        read: Callable[[Record], Row],
        *,
        broker: Broker,
        store: IntakeStore[Row],
        clock: Clock,
        max_records: int = 500,
        letters: Broker | None = None,
        stored: Callable[[Sequence[Row], datetime], None] | None = None,
    ) -> None:
        self._topic = topic
        self._on_stored = stored
        self._letters = letters
        self._read = read
        self._broker = broker
        self._store = store
        self._clock = clock
        self._max_records = max_records
        self._partitions = 0
        self._positions: dict[int, int] = {}
        self._reader: Reader | None = None

    async def run(self) -> None:
        """Copies until cancelled; retries while the log or PostgreSQL is unavailable."""
        try:
            await run_forever(self.step, called="intake", topic=self._topic)
        finally:
            await self.close()

    async def step(self) -> float:
        """One iteration of `run`; returns the seconds until the next.

        Raises:
            UnavailableError: as `run_once`.
        """
        await self.run_once(timeout=_WAIT)
        return 0.0

    async def run_once(self, *, timeout: float) -> int:
        """Reads once, waiting up to `timeout` seconds for records, and stores them. Returns the number of rows stored.

        Raises:
            UnavailableError: the log or PostgreSQL is unavailable; call again, nothing is lost or stored twice.
        """
        try:
            if self._reader is None:
                self._reader = await self._open()
            chunks = await self._reader.read(max_records=self._max_records, timeout=timeout)
            for chunk in chunks:
                if chunk.deleted and self._positions[chunk.partition]:
                    first = self._positions[chunk.partition]
                    at = f"{self._topic}/{chunk.partition}"
                    log.error("intake.unread_deleted", records=f"{chunk.deleted} of {at}, from {first}")
            return await self._take(self._reader, chunks) if chunks else 0
        except BaseException:
            await self.close()  # whether rows were stored is unknown: restart from the stored positions
            raise

    async def close(self) -> None:
        """Closes the reader; a later `run_once` starts from the stored positions."""
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
        try:
            return await self._store_batches(reader, batches)
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - caused by one of the records
            log.warning("intake.batch_split", topic=self._topic, reason=describe_failure(failure))
        return sum([await self._store_in_parts(reader, chunk) for chunk in chunks])

    async def _store_in_parts(self, reader: Reader, chunk: Chunk) -> int:
        """Stores a chunk that could not be stored with others; a record that fails alone becomes a dead letter."""
        stored, start = 0, self._positions[chunk.partition]
        search = FailureIsolation(chunk.records)
        for records in search:
            if self._positions[chunk.partition] != start:
                break  # another intake has stored it: the reader continues from its position
            part = chunk.part(records)
            batch = IntakeBatch(chunk.partition, start, part.next_position, self._rows(part))
            try:
                stored += await self._store_batches(reader, [batch])
            except Exception as failure:  # noqa: BLE001 - as above
                if search.halve(failure):
                    continue
                for record in part.records:
                    await self._refuse(
                        chunk, record, DecodeError("$", f"cannot be stored: {describe_failure(failure)}")
                    )
                await self._store_batches(reader, [replace(batch, rows=[])])
            start = part.next_position
        return stored

    def _rows(self, chunk: Chunk) -> list[Row]:
        """The rows of the records that can be read; the others are dead letters already."""
        rows: list[Row] = []
        for record in chunk.records:
            with suppress(Exception):
                rows.append(self._read(record))
        return rows

    async def _store_batches(self, reader: Reader, batches: Sequence[IntakeBatch[Row]]) -> int:
        now = self._clock.now()
        taken = await self._store.take(self._topic, batches, now=now)
        for batch in batches:
            if batch.partition in taken.partitions:
                self._positions[batch.partition] = batch.next
                if self._on_stored is not None:
                    self._on_stored(batch.rows, now)
        missed = [batch for batch in batches if batch.partition not in taken.partitions]
        if missed:
            await self._catch_up(reader, missed)
        if taken.stored:
            log.debug("intake.stored", topic=self._topic, rows=taken.stored, obsolete=taken.obsolete)
        return taken.stored

    async def _catch_up(self, reader: Reader, missed: Sequence[IntakeBatch[Row]]) -> None:
        """Continues from the positions that another intake has stored."""
        positions = await self._store.positions(self._topic, self._partitions)
        for batch in missed:
            self._positions[batch.partition] = positions[batch.partition]
            reader.seek(TopicPartition(self._topic, batch.partition), positions[batch.partition])
        if any(positions[batch.partition] == batch.start for batch in missed):
            await asyncio.sleep(_HELD)

    async def _batch(self, chunk: Chunk) -> IntakeBatch[Row]:
        rows: list[Row] = []
        for record in chunk.records:
            try:
                rows.append(self._read(record))
            except DecodeError as error:
                await self._refuse(chunk, record, error)
            except Exception as failure:  # noqa: BLE001 - caused by this record only
                await self._refuse(chunk, record, DecodeError("$", f"cannot be read: {describe_failure(failure)}"))
        return IntakeBatch(chunk.partition, self._positions[chunk.partition], chunk.next_position, rows)

    async def _refuse(self, chunk: Chunk, record: Record, error: DecodeError) -> None:
        letters, partition = self._broker, chunk.partition
        if self._letters is not None:
            letters = self._letters
            partition %= await letters.partitions(DEAD_LETTER)
        await letters.append([dead_letter(chunk, record, error, partition=partition)])
        log.error(
            "intake.dead_letter",
            topic=self._topic,
            partition=chunk.partition,
            offset=record.offset,
            reason=str(error),
        )

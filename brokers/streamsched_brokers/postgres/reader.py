"""Reads partitions from explicit positions: one statement for all partitions, and a wait for a notification."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import asyncpg

from streamsched.ports.broker import CatchUpRead, Chunk, Record, TopicPartition
from streamsched_brokers.postgres.batches import BATCH_RECORDS, records
from streamsched_brokers.postgres.connection import translate_errors
from streamsched_brokers.postgres.sql import queries
from streamsched_brokers.postgres.wakeup import Wakeups

#: The limit of bytes in one read; its last batch may exceed it.
READ_BYTES = 16 << 20

#: A waiting reader also polls: a notification may have been lost with its connection. The first interval after it was
#: woken, and the longest: each that finds nothing doubles the next.
RECHECK_SECONDS = 1.0
LONGEST_RECHECK_SECONDS = 4.0


class PostgresReader:
    """Keeps the positions; they advance only by the records that `read` returns."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        wakeups: Wakeups,
        ids: Mapping[TopicPartition, tuple[int, int]],
        positions: Mapping[TopicPartition, int],
    ) -> None:
        self._pool = pool
        self._wakeups = wakeups
        self._ids = ids
        self._positions = dict(positions)
        #: The order in which the next read serves the partitions.
        self._order = list(positions)
        #: Set while there may be records that were not fetched yet.
        self._grown = asyncio.Event()
        self._grown.set()
        self._checked = 0.0
        self._recheck_s = RECHECK_SECONDS
        #: Whether the last read had room for all there was, in one snapshot. A read takes no batch that ends more than
        #: `max_records` after the position, so there is room if one more batch would have been taken.
        self._whole = False
        wakeups.subscribe(ids.values(), self._grown)

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            woken = self._grown.is_set()
            if timeout <= 0 or woken or loop.time() >= self._checked + self._recheck_s:
                chunks = await self._take(self._order, max_records)
                self._recheck_s = (
                    RECHECK_SECONDS if woken or chunks else min(2 * self._recheck_s, LONGEST_RECHECK_SECONDS)
                )
                if chunks:
                    return chunks
                self._checked = loop.time()
            if (left := deadline - loop.time()) <= 0:
                return []
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._checked + self._recheck_s - loop.time())):
                    await self._grown.wait()

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        """An append is acknowledged when it is visible. So after a read that had room for all there was, in one
        snapshot, everything older than what it returned has been read too.
        """
        chunks: list[Chunk] = []
        start = self._positions[partition]
        try:
            while not self._whole:
                more = await self._take([partition], max_records)
                if not more:
                    break
                chunks += more
                max_records -= len(more[0].records)
                if max_records <= 0:
                    return CatchUpRead(chunks, False)
        except BaseException:
            self.seek(partition, start)
            raise
        return CatchUpRead(chunks, True)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._positions[partition] = position
        self._whole = False
        self._grown.set()

    async def close(self) -> None:
        self._wakeups.unsubscribe(self._ids.values(), self._grown)

    async def _take(self, order: Sequence[TopicPartition], max_records: int) -> list[Chunk]:
        """Fetches these partitions without waiting. After a fetch that found records or failed, there may be more."""
        topics, partitions = [self._ids[at][0] for at in order], [at.partition for at in order]
        positions = [self._positions[at] for at in order]
        self._grown.clear()
        rows = None
        try:
            with translate_errors():
                rows = await self._pool.fetch(queries()["read"], topics, partitions, positions, max_records, READ_BYTES)
        finally:
            if rows != []:
                self._grown.set()
        found: dict[int, list[Record]] = {}
        for row in rows:
            nth = row["nth"] - 1
            batch = records(row, positions[nth])
            if nth in found:
                found[nth].extend(batch)
            else:
                found[nth] = batch
        chunks: list[Chunk] = []
        for nth, batch in found.items():
            at = order[nth]
            # Discarded when `seek` was called during the query.
            if batch and self._positions[at] == positions[nth]:
                self._positions[at] = batch[-1].offset + 1
                deleted = batch[0].offset - positions[nth]
                chunks.append(Chunk(at.topic, at.partition, batch, batch[-1].offset + 1, deleted))
        self._whole = (
            sum(len(row["keys"]) for row in rows) + BATCH_RECORDS <= max_records
            and sum(row["bytes"] for row in rows) < READ_BYTES
            and len(chunks) == len(found)
            and not any(chunk.deleted for chunk in chunks)
        )
        # Partitions without records in this read are first in the next, which may not have room for all.
        served = {order[nth] for nth in found}
        self._order.sort(key=served.__contains__)
        return chunks

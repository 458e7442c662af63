"""Reads partitions from explicit positions: one statement for all of them, and a wait that ends with a notification."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import asyncpg

from streamsched.ports.broker import Chunk, Record, TopicPartition
from streamsched_brokers.postgres.batches import records
from streamsched_brokers.postgres.connection import translated
from streamsched_brokers.postgres.sql import queries
from streamsched_brokers.postgres.wakeup import Wakeups

#: What one read holds at most, beside its last batch.
READ_BYTES = 16 << 20

#: A reader that hears nothing looks for itself that often: a notification may have been lost with its connection.
RECHECK_SECONDS = 1.0


class PostgresReader:
    """Positions live here and nowhere else; they advance only with what `read` returns."""

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
        self._turn = list(positions)
        #: Set while there may be something we have not looked for.
        self._grown = asyncio.Event()
        self._grown.set()
        self._checked = 0.0
        wakeups.subscribe(ids.values(), self._grown)

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            if timeout <= 0 or self._grown.is_set() or loop.time() >= self._checked + RECHECK_SECONDS:
                chunks = await self._take(max_records)
                if chunks:
                    return chunks
                self._checked = loop.time()
            if (left := deadline - loop.time()) <= 0:
                return []
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._checked + RECHECK_SECONDS - loop.time())):
                    await self._grown.wait()

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._positions[partition] = position
        self._grown.set()

    async def close(self) -> None:
        self._wakeups.unsubscribe(self._ids.values(), self._grown)

    async def _take(self, max_records: int) -> list[Chunk]:
        """What is there, at once. While anything was found, or the question failed, there may be more."""
        turn, topics, partitions = self._turn, [self._ids[at][0] for at in self._turn], [at[1] for at in self._turn]
        positions = [self._positions[at] for at in turn]
        self._grown.clear()
        rows = None
        try:
            with translated():
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
            at = turn[nth]
            # A seek while we asked wins.
            if batch and self._positions[at] == positions[nth]:
                self._positions[at] = batch[-1].offset + 1
                chunks.append(Chunk(at.topic, at.partition, batch, batch[-1].offset + 1))
        # Who got something now stands behind those who got nothing, should the next read not have room for all.
        self._turn = [at for nth, at in enumerate(turn) if nth not in found] + [turn[nth] for nth in found]
        return chunks

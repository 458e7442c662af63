"""`ports.reports` in PostgreSQL: a row for each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg

from streamsched.ports.broker import TopicPartition
from streamsched.ports.leases import Lease
from streamsched.ports.reports import Queue, Report, Standing, Told
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("reports")
#: Whose work a queue is.
_PARTS: Final = {"outbox": "relay"}


class PostgresReports:
    """`Reports`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def tell(self, worker: str, reports: Sequence[Report]) -> None:
        rows = [(report.shard, report.epoch, _to_json(report)) for report in reports]
        if rows:
            with translated():
                await self._pool.execute(_SQL["tell"], worker, *zip(*rows, strict=True))

    async def standing(self) -> Standing:
        with translated():
            async with self._pool.acquire() as connection:
                told = await connection.fetch(_SQL["told"])
                leases = await connection.fetch(_SQL["leases"])
                queues = await connection.fetch(_SQL["queues"])
                taken = await connection.fetch(_SQL["taken"])
        return Standing(
            [Told(row["worker"], row["age_s"], _report(row)) for row in told],
            [Lease(**row) for row in leases],
            [_queue(row) for row in queues],
            {TopicPartition(row["topic"], row["partition"]): row["position"] for row in taken},
        )


def _queue(row: Any) -> Queue:
    oldest = 0.0 if row["since"] is None else max(0.0, (row["now"] - row["since"]).total_seconds())
    return Queue(row["name"], row["waiting"], oldest, _PARTS.get(row["name"]))


def _to_json(report: Report) -> dict[str, Any]:
    positions: dict[str, dict[str, int]] = {}
    for (topic, partition), position in report.positions.items():
        positions.setdefault(topic, {})[str(partition)] = position
    return {
        "doing": report.doing,
        "turns_s": round(report.turns_s, 2),
        "records_s": round(report.records_s, 1),
        "chunk": report.chunk,
        "recovery_s": round(report.recovery_s, 3),
        "rows": report.rows,
        "halted": report.halted,
        "positions": positions,
        "silent_s": round(report.silent_s, 1),
    }


def _report(row: Any) -> Report:
    said: Mapping[str, Any] = row["report"]
    positions = {
        TopicPartition(topic, int(partition)): position
        for topic, partitions in said["positions"].items()
        for partition, position in partitions.items()
    }
    return Report(
        shard=row["shard"],
        epoch=row["epoch"],
        doing=said["doing"],
        turns_s=said["turns_s"],
        records_s=said["records_s"],
        chunk=said["chunk"],
        recovery_s=said["recovery_s"],
        rows=said["rows"],
        halted=said["halted"],
        positions=positions,
        silent_s=said.get("silent_s", 0.0),
    )

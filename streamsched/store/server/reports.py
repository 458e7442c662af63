"""`ports.server.ReportStore` on PostgreSQL: one row for each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg

from streamsched.ports.broker import TopicPartition
from streamsched.ports.leases import Lease
from streamsched.ports.server import InstallationSnapshot, QueueDepth, ReceivedReport, ShardReport
from streamsched.store.connections import translated
from streamsched.store.server.clock_judgements import PostgresClockJudgements
from streamsched.store.sql import queries

_SQL = queries("server/reports")
#: The singleton role that works off a queue.
_ROLES: Final = {"outbox": "relay"}


class PostgresReportStore:
    """See `ports.server.ReportStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def save(self, worker: str, reports: Sequence[ShardReport]) -> None:
        rows = [(report.shard, report.epoch, _to_json(report)) for report in reports]
        if rows:
            with translated():
                await self._pool.execute(_SQL["upsert_report"], worker, *zip(*rows, strict=True))

    async def snapshot(self) -> InstallationSnapshot:
        with translated():
            async with self._pool.acquire() as connection:
                reports = await connection.fetch(_SQL["reports"])
                leases = await connection.fetch(_SQL["leases"])
                queues = await connection.fetch(_SQL["queues"])
                positions = await connection.fetch(_SQL["taken"])
        return InstallationSnapshot(
            [ReceivedReport(row["worker"], row["age_s"], _report(row)) for row in reports],
            [Lease(**row) for row in leases],
            [_queue(row) for row in queues],
            {TopicPartition(row["topic"], row["partition"]): row["position"] for row in positions},
            await PostgresClockJudgements(self._pool).state(),
        )


def _queue(row: Any) -> QueueDepth:
    oldest = 0.0 if row["since"] is None else max(0.0, (row["now"] - row["since"]).total_seconds())
    return QueueDepth(row["name"], row["waiting"], oldest, _ROLES.get(row["name"]))


def _to_json(report: ShardReport) -> dict[str, Any]:
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


def positions_of(stored: Mapping[str, Mapping[str, int]]) -> Mapping[TopicPartition, int]:
    """Those of a report, stored by topic and partition."""
    return {
        TopicPartition(topic, int(partition)): position
        for topic, partitions in stored.items()
        for partition, position in partitions.items()
    }


def _report(row: Any) -> ShardReport:
    stored: Mapping[str, Any] = row["report"]
    return ShardReport(
        shard=row["shard"],
        epoch=row["epoch"],
        doing=stored["doing"],
        turns_s=stored["turns_s"],
        records_s=stored["records_s"],
        chunk=stored["chunk"],
        recovery_s=stored["recovery_s"],
        rows=stored["rows"],
        halted=stored["halted"],
        positions=positions_of(stored["positions"]),
        silent_s=stored.get("silent_s", 0.0),
    )

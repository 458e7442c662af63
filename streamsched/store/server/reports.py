"""Reports of shards, one row for each, and the state of an installation that they are read with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.ports.broker import TopicPartition
from streamsched.ports.leases import Lease
from streamsched.ports.reports import ShardReport, UnreadDeletion
from streamsched.store.connections import Executor, Pool, translate_errors
from streamsched.store.positions import read_positions
from streamsched.store.server.clock_judgements import ClockJudgements, ClockState
from streamsched.store.sql import Select, queries

_SQL = queries("server/reports")
#: The singleton role that works off a queue.
_ROLES: Final = {"outbox": "relay"}


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A report with its worker and its age in seconds, by the database's clock."""

    worker: str
    age_s: float
    report: ShardReport


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The length of a queue.

    Attributes:
        oldest_s: seconds the first entry has waited; 0 when it is empty.
        part: the singleton role that works it off; None when any process does.
    """

    name: str
    waiting: int
    oldest_s: float
    part: str | None = None


@dataclass(frozen=True, slots=True)
class InstallationSnapshot:
    """The state of an installation, as stored in PostgreSQL.

    Attributes:
        leases: all leases, expired ones too.
        taken: how far each partition of the topics stored as rows is stored.
        clock: PostgreSQL's clock, and the newest judgement about it.
    """

    reports: Sequence[ReceivedReport]
    leases: Sequence[Lease]
    queues: Sequence[QueueDepth]
    taken: Mapping[TopicPartition, int]
    clock: ClockState


class _Report(NamedTuple):
    """The last report of a shard, and its age in seconds."""

    shard: int
    worker: str
    epoch: int
    report: Mapping[str, Any]
    age_s: float


class _Queue(NamedTuple):
    """How many wait, since when the first does, and the present time."""

    name: str
    waiting: int
    since: datetime | None
    now: datetime


_REPORTS: Final = Select(_SQL["reports"], _Report)
#: All leases, expired ones too.
LEASES: Final = Select(_SQL["leases"], Lease)
_DELETIONS: Final = Select(_SQL["deletions"], UnreadDeletion)
_QUEUES: Final = Select(_SQL["queues"], _Queue)


class PostgresReportStore:
    """`ports.reports.ReportStore` on PostgreSQL, and what is read beside the reports."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def save(self, worker: str, reports: Sequence[ShardReport]) -> None:
        """Stores the newest report of each shard; one of an older epoch changes nothing."""
        rows = [(report.shard, report.epoch, _to_json(report)) for report in reports]
        if rows:
            with translate_errors():
                await self._pool.execute(_SQL["upsert_report"], worker, *zip(*rows, strict=True))

    async def positions(self) -> Mapping[TopicPartition, int]:
        """How far shards, by their last reports, and the intakes of rows have read.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                found = dict(await read_positions(connection))
                for row in await _REPORTS.fetch(connection):
                    found |= positions_of(row.report["positions"])
        return found

    async def snapshot(self) -> InstallationSnapshot:
        """Reads all reports, leases and queues.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                reports = await _REPORTS.fetch(connection)
                leases = await LEASES.fetch(connection)
                queues = await _QUEUES.fetch(connection)
                stored = await read_positions(connection)
        return InstallationSnapshot(
            [ReceivedReport(row.worker, row.age_s, _report(row)) for row in reports],
            leases,
            [_queue(row) for row in queues],
            stored,
            await ClockJudgements(self._pool).state(),
        )


def _queue(row: _Queue) -> QueueDepth:
    oldest = 0.0 if row.since is None else max(0.0, (row.now - row.since).total_seconds())
    return QueueDepth(row.name, row.waiting, oldest, _ROLES.get(row.name))


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
        **({"waiting_since": dict(report.waiting_since)} if report.waiting_since else {}),
        **({"deleted": [each._asdict() for each in report.deleted]} if report.deleted else {}),
    }


async def read_deletions(executor: Executor, since: datetime, until: datetime) -> Sequence[UnreadDeletion]:
    """What shards found deleted from the log unread between these, the newest first."""
    return await _DELETIONS.fetch(executor, since, until)


def positions_of(stored: Mapping[str, Mapping[str, int]]) -> Mapping[TopicPartition, int]:
    """Those of a report, stored by topic and partition."""
    return {
        TopicPartition(topic, int(partition)): position
        for topic, partitions in stored.items()
        for partition, position in partitions.items()
    }


def _report(row: _Report) -> ShardReport:
    stored = row.report
    return ShardReport(
        shard=row.shard,
        epoch=row.epoch,
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

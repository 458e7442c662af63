"""Compaction and retention: one transaction per partition; any process may run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg
import structlog

from streamsched.ports.broker import TopicPartition
from streamsched_brokers.postgres.batches import BATCH_BYTES, BATCH_RECORDS
from streamsched_brokers.postgres.log_time import LogTime
from streamsched_brokers.postgres.sql import queries

#: After every offset.
_END = (1 << 63) - 1
#: The timeout of one pass: a changelog of millions of records takes long. A pass blocks no reader and no writer.
PASS_SECONDS = 600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """When to compact.

    Attributes:
        least: a partition is compacted when it has at least so many records since the last pass, and at least as many
            as that pass kept: so each record is rewritten about once or twice, however large the changelog.
    """

    least: int = 1000


async def compact(pool: asyncpg.Pool, housekeeping: Housekeeping, time: LogTime) -> None:
    """Makes one pass over every partition of compacted topics that has enough new records."""
    for topic_id, partition, tombstones in await pool.fetch(queries()["compactable"], housekeeping.least):
        removed = await pool.fetchval(
            queries()["compact"],
            topic_id,
            partition,
            housekeeping.least,
            tombstones,
            BATCH_RECORDS,
            BATCH_BYTES,
            time.now_ms(),
            timeout=PASS_SECONDS,
        )
        log.debug("log.compacted", topic_id=topic_id, partition=partition, removed=removed)


async def expire(pool: asyncpg.Pool, time: LogTime, unread: Mapping[TopicPartition, int]) -> None:
    """Deletes batches older than their topic's retention, but none at or after a position in `unread`."""
    for topic_id, partition, topic in await pool.fetch(queries()["expirable"]):
        until = unread.get(TopicPartition(topic, partition), _END)
        while removed := await pool.fetchval(queries()["expire"], topic_id, partition, time.now_ms(), until):
            log.debug("log.expired", topic_id=topic_id, partition=partition, batches=removed)

"""Housekeeping, one short transaction for each partition, by whichever process comes first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import structlog

from streamsched_brokers.postgres.batches import BATCH_BYTES, BATCH_RECORDS
from streamsched_brokers.postgres.sql import queries

#: A pass over a changelog of millions takes its time; it holds nobody up.
PASS_SECONDS = 600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """When to clean.

    Attributes:
        least: a partition is compacted when that many records came since the last pass, and as many as were kept then:
            so each record is rewritten about once or twice in its life, however big the changelog.
        tombstone_grace: how long after the pass that removed what it covers a tombstone is kept; longer than anyone
            takes to read a changelog from beginning to end.
    """

    least: int = 1000
    tombstone_grace: timedelta = timedelta(days=1)


async def compact(pool: asyncpg.Pool, housekeeping: Housekeeping) -> None:
    """One pass over every partition of the compacted topics that is worth it."""
    for topic_id, partition in await pool.fetch(queries()["compactable"], housekeeping.least):
        removed = await pool.fetchval(
            queries()["compact"],
            topic_id,
            partition,
            housekeeping.least,
            housekeeping.tombstone_grace,
            BATCH_RECORDS,
            BATCH_BYTES,
            timeout=PASS_SECONDS,
        )
        log.debug("log.compacted", topic_id=topic_id, partition=partition, removed=removed)


async def expire(pool: asyncpg.Pool) -> None:
    """Drops what is older than its topic's retention."""
    for topic_id, partition in await pool.fetch(queries()["expirable"]):
        while removed := await pool.fetchval(queries()["expire"], topic_id, partition):
            log.debug("log.expired", topic_id=topic_id, partition=partition, batches=removed)

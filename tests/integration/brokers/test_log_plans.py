"""Every statement of the log finds its rows by index, however long the log and however old the statistics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
from streamsched_brokers.postgres.connection import SESSION
from streamsched_brokers.postgres.driver import open_broker
from streamsched_brokers.postgres.reader import READ_BYTES
from streamsched_brokers.postgres.sql import queries

from streamsched.ports.broker import Cleanup, TopicSpec

pytestmark = pytest.mark.postgres

PARTITIONS, BATCHES = 4, 5000


@pytest.fixture
async def connection(empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session like the driver's, on a log of thousands of batches without gathered statistics."""
    broker = await open_broker(empty_database, connections=1)
    await broker.create_topics([TopicSpec("long", PARTITIONS), TopicSpec("table", PARTITIONS, Cleanup.COMPACT)])
    await broker.close()
    connection = await asyncpg.connect(empty_database, server_settings=SESSION)
    await connection.execute("SELECT 1 FROM streamsched_log.batch")  # a plan made while it was empty must not stay
    await connection.execute(
        """
        INSERT INTO streamsched_log.batch
            (topic_id, partition, first_offset, last_offset, count, bytes, time_ms, keys, values)
        SELECT 1, p, n * 10, n * 10 + 9, 10, 1000, 0, k, k
        FROM (SELECT array_fill('k'::bytea, ARRAY[10]) AS k) ten,
             generate_series(0, $1 - 1) p, generate_series(0, $2 - 1) n
        """.replace("$1", str(PARTITIONS)).replace("$2", str(BATCHES))
    )
    await connection.execute(f'UPDATE streamsched_log.partition SET "end" = {BATCHES * 10} WHERE topic_id = 1')
    try:
        yield connection
    finally:
        await connection.close()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("position", [0, BATCHES * 5, BATCHES * 10 - 5, BATCHES * 10])
async def test_reading_scans_only_what_it_returns(
    connection: asyncpg.Connection, *, position: int, plan: str, analyzed: bool
) -> None:
    if analyzed:
        await connection.execute("ANALYZE streamsched_log.batch")
    await connection.execute(f"SET plan_cache_mode = {plan}")
    limit = 200
    explained = await connection.fetchval(
        f"EXPLAIN (ANALYZE, FORMAT JSON) {queries()['read']}",
        [1] * PARTITIONS,
        list(range(PARTITIONS)),
        [position] * PARTITIONS,
        limit,
        READ_BYTES,
    )
    assert explained is not None
    scans = [node for node in nodes(json.loads(explained)[0]["Plan"]) if node.get("Relation Name") == "batch"]

    assert scans
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}
    assert {node["Index Name"] for node in scans} == {"batch_pkey"}
    assert all("last_offset" in node["Index Cond"] for node in scans)
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= PARTITIONS * (8 + limit / 10 + 1)


async def test_writing_fencing_and_expiring_never_scan_a_table(connection: asyncpg.Connection) -> None:
    tables = ("batch", "partition", "writer", "compaction")

    async def sequential_scans() -> dict[str, int]:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        rows = await connection.fetch(
            "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'streamsched_log'"
        )
        return {row["relname"]: row["seq_scan"] for row in rows if row["relname"] in tables}

    await connection.execute("INSERT INTO streamsched_log.writer SELECT 'w' || n, 1 FROM generate_series(1, 2000) n")
    before = await sequential_scans()
    flat = ([1, 2], [0, 3], [2, 1], [b"a", b"b", b"c"], [b"1", b"2", None])
    for _ in range(10):
        await connection.fetchval(queries()["fence"], "w7")
        epoch = await connection.fetchval("SELECT epoch FROM streamsched_log.writer WHERE name = 'w7'")
        assert epoch is not None

        assert await connection.fetchval(queries()["commit"], "w7", epoch, *flat, None)
        assert not await connection.fetchval(queries()["commit"], "w7", epoch - 1, *flat, None)

        await connection.execute(queries()["append"], *flat, None)
        await connection.fetch(queries()["ends"], [1, 1], [0, 2])
        await connection.fetchval(queries()["expire"], 1, 1, None, 1 << 40)
    await connection.fetchval("SELECT streamsched_log.compact_v1(2, 3, 1, interval '1 day', 1000, 1048576, NULL)")

    assert await sequential_scans() == before

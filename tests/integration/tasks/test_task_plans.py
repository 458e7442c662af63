"""The statements that owners and registrations repeat are served by indexes, with 100,000 tasks of 20,000 lanes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from streamsched.domain.tasks.identity import PARTITIONS
from streamsched.store.sql import queries
from tests.integration.tasks.task_world import TaskWorld

DELIVERY, REGISTRATION, REGISTRY = (queries(f"tasks/{name}") for name in ("delivery", "registration", "registry"))
DAPR = queries("dapr/jobs")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
PARTS, EPOCHS = list(range(PARTITIONS)), [0] * PARTITIONS
SOME = [f"{n:032x}" for n in range(10)]

_FILL = """
INSERT INTO task_queues (name, policy, dedupe, changed_at)
SELECT 'q' || n, '{}', '1d', now() FROM generate_series(0, 9) n;
INSERT INTO task_lanes (id, partition, queue, name, ready_at)
SELECT lpad(to_hex(n), 32, '0'), n % 16, 'q' || n % 10, 'lane' || n, timestamptz '2026-03-01' + n * interval '1 second'
FROM generate_series(0, 19999) n;
INSERT INTO tasks (id, lane_id, queue, lane, key, state, due_at, planned_at, next_at, generation, data, content_type,
    created_at)
SELECT lpad(to_hex(n), 32, '0'), lpad(to_hex(n % 20000), 32, '0'), 'q' || n % 10, 'lane' || n % 20000, 'key' || n,
    'WAITING', t, t, t, n, 'data', '', t
FROM generate_series(0, 99999) n
    CROSS JOIN LATERAL (SELECT timestamptz '2026-03-01' + n * interval '1 second' AS t) AS due;
INSERT INTO tasks_history (at, id, queue, lane, key, state, final, due_at, record)
SELECT timestamptz '2026-02-20' + n * interval '1 second', lpad(to_hex(n), 32, '0'), 'q' || n % 10, 'lane', 'key',
    'SUCCEEDED', true, timestamptz '2026-02-20', '{}' FROM generate_series(0, 99999) n;
"""


@pytest.fixture
async def filled(world: TaskWorld) -> asyncpg.Pool:
    await world.pool.execute(_FILL)
    await world.pool.execute("VACUUM ANALYZE tasks, task_lanes, task_queues, task_partitions, tasks_history_rest")
    return world.pool


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


STATEMENTS = {
    "next_ready": (DELIVERY["next_ready"], (["q0", "q1"], PARTS)),
    "lock_due": (DELIVERY["lock_due"], (PARTS, EPOCHS, "q1", NOW + timedelta(hours=5), 100)),
    "start": (DELIVERY["start"], (SOME, NOW + timedelta(days=1), 1_000_000)),
    "outdated": (DELIVERY["outdated"], (SOME, [1] * 10)),
    "lock_ended": (DELIVERY["lock_ended"], (PARTS, EPOCHS, SOME, SOME, [1] * 10)),
    "free_lanes": (DELIVERY["free_lanes"], (SOME, NOW)),
    "in_flight": (DELIVERY["in_flight"], ("q1", 100)),
    "known": (REGISTRATION["known"], (SOME, [NOW - timedelta(days=14)] * 10)),
    "page": (REGISTRY["page"], ("q1", NOW, "", 100)),
    "lane_page": (REGISTRY["lane_page"], (SOME[1], NOW, "", 100)),
    "ended_page": (REGISTRY["ended_page"], ("q1", NOW, "", 100)),
    "ends": (REGISTRY["ends"], (SOME[1], 20)),
    "head": (REGISTRY["head"], (SOME[1], 10_000)),
    "dapr_get": (DAPR["get"], (SOME[1],)),
    "dapr_list": (DAPR["list"], ("q1", "key1", 1000)),
    "dapr_some": (DAPR["some"], ("q1", "key1", 1000)),
    "dapr_end": (DAPR["end"], (SOME, NOW, "deleted")),
    "dapr_check_lanes": (DAPR["check_lanes"], (SOME, NOW)),
    "before": (REGISTRY["before"], (SOME[1], True, NOW, "k", 10_000)),
}


async def test_each_statement_reads_little_by_index(filled: asyncpg.Pool) -> None:
    for name, (statement, arguments) in STATEMENTS.items():
        async with filled.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            explained = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *arguments)
            await transaction.rollback()
        plan = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
        scanned = {
            node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan" and "Relation Name" in node
        }
        assert scanned <= {"task_partitions", "task_queues"}, f"{name} reads all of {scanned}"
        read = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert read < 9000, f"{name} reads {read} blocks"


async def test_a_stuck_lane_with_100_000_due_tasks_costs_the_others_nothing(filled: asyncpg.Pool) -> None:
    await filled.execute("UPDATE tasks SET lane_id = $1 WHERE state = 'WAITING'", SOME[0])
    await filled.execute("VACUUM ANALYZE tasks")
    async with filled.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        explained = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {DELIVERY['start']}", SOME, NOW + timedelta(days=9), 1_000_000
        )
        await transaction.rollback()
    plan = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]

    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500

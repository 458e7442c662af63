"""The statements that owners, registrations and people repeat are served by indexes, with 200,000 tasks in 100,000
lanes, 2,000 of them in flight, and 100,000 ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from streamsched.store.sql import queries
from tests.integration.tasks.task_world import TaskWorld

DELIVERY, REGISTRATION, REGISTRY, QUEUES, PARTITIONS = (
    queries(f"tasks/{name}") for name in ("delivery", "registration", "registry", "queues", "partitions")
)
DAPR = queries("jobs", "streamsched.dialects.dapr.store")
GAUGES = queries("server/gauges")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
PARTS, EPOCHS = list(range(16)), [0] * 16

_FILL = """
INSERT INTO task_queues (name, policy, dedupe, changed_at)
SELECT 'q' || n, '{}', '1d', now() FROM generate_series(0, 9) n;
INSERT INTO task_lanes (id, partition, queue, name, ready_at, in_flight, generation, started_at)
SELECT lpad(to_hex(n), 32, '0'), (n / 10) % 16, 'q' || n % 10, 'lane' || n,
    CASE WHEN n % 50 > 0 THEN t END, CASE WHEN n % 50 = 0 THEN lpad(to_hex(n), 32, '0') END,
    CASE WHEN n % 50 = 0 THEN n END, CASE WHEN n % 50 = 0 THEN t END
FROM generate_series(0, 99999) n
    CROSS JOIN LATERAL (SELECT timestamptz '2026-03-01' + n * interval '1 second' AS t) AS due;
INSERT INTO tasks (id, lane_id, queue, lane, key, state, due_at, planned_at, next_at, generation, data, content_type,
    created_at)
SELECT lpad(to_hex(n), 32, '0'), lpad(to_hex(n % 100000), 32, '0'), 'q' || n % 10, 'lane' || n % 100000, 'key' || n,
    'WAITING', t, t, t, n, 'data', '', t
FROM generate_series(0, 199999) n
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


def ids(numbers: Iterable[int]) -> list[str]:
    return [f"{n:032x}" for n in numbers]


#: A batch of an owner: tasks that are in flight, each in the lane of its number; and a batch of a registration.
MANY = 500
STARTED = [n * 50 for n in range(MANY)]
IN_FLIGHT, IDS = ids(STARTED), ids(range(MANY))
STARTED_AT = [NOW + timedelta(seconds=n) for n in STARTED]


def column(value: object) -> list[object]:
    """The same value in each row of a batch."""
    return [value] * MANY


#: Statement, arguments, and the most blocks that it may read and write.
STATEMENTS: dict[str, tuple[str, tuple[object, ...], int]] = {
    "fence": (DELIVERY["fence"], (PARTS, [1] * 16), 200),
    "recover": (DELIVERY["recover"], ([3], NOW, [], [], []), 6000),
    "recover all": (DELIVERY["recover"], (PARTS, NOW, [], [], []), 60_000),
    "recover beside what is held": (DELIVERY["recover"], (PARTS, NOW, IN_FLIGHT, STARTED, STARTED_AT), 60_000),
    "next_ready": (DELIVERY["next_ready"], ([f"q{n}" for n in range(10)], PARTS), 1500),
    "lock_due": (DELIVERY["lock_due"], (PARTS, EPOCHS, "q1", NOW + timedelta(days=5), MANY), 6000),
    "lock_due, one partition": (DELIVERY["lock_due"], ([1], [0], "q1", NOW + timedelta(days=5), MANY), 6000),
    "lock_due, nothing": (DELIVERY["lock_due"], (PARTS, EPOCHS, "q1", NOW - timedelta(days=1), MANY), 300),
    "start": (DELIVERY["start"], (IDS, NOW + timedelta(days=1), 1_000_000), 16_000),
    "outdated": (DELIVERY["outdated"], (IN_FLIGHT, STARTED), 4000),
    "lock_ended": (DELIVERY["lock_ended"], (PARTS, EPOCHS, IN_FLIGHT, IN_FLIGHT, STARTED, STARTED_AT), 6000),
    "end_tasks": (
        DELIVERY["end_tasks"],
        (IN_FLIGHT, STARTED, column("SUCCEEDED"), column(""), column(NOW), column("{}")),
        12_000,
    ),
    "retry_tasks": (
        DELIVERY["retry_tasks"],
        (IN_FLIGHT, STARTED, column(NOW), column(NOW), column(1), column(0), column("x"), column("{}"), column(2)),
        16_000,
    ),
    "tick_tasks": (
        DELIVERY["tick_tasks"],
        (
            *(IN_FLIGHT, STARTED, column(NOW), column(1), column("SUCCEEDED"), column("")),
            *(column(NOW), column(NOW), column("{}"), column(2), column(1)),
        ),
        16_000,
    ),
    "free_lanes": (DELIVERY["free_lanes"], (IN_FLIGHT, NOW), 12_000),
    "in_flight": (DELIVERY["in_flight"], ("q0", 10_000), 3000),
    "lock_lanes": (
        REGISTRATION["lock_lanes"],
        (IDS, column("q1"), column("lane"), column(NOW)),
        12_000,
    ),
    "known": (REGISTRATION["known"], (IDS, column(NOW - timedelta(days=14))), 8000),
    "store": (
        REGISTRATION["store"],
        (
            IDS,
            IDS,
            column("q1"),
            column("lane"),
            column("key"),
            column(NOW),
            column(None),
            column(b"x"),
            column(""),
            column(NOW),
        ),
        16_000,
    ),
    "live": (REGISTRY["live"], (IDS,), 6000),
    "page": (REGISTRY["page"], ("q1", NOW, "", 100), 300),
    "lane_page": (REGISTRY["lane_page"], (IDS[1], NOW, "", 100), 300),
    "ended_page": (REGISTRY["ended_page"], ("q1", NOW, "", 100), 300),
    "ends": (REGISTRY["ends"], (IDS[1], 20), 300),
    "head": (REGISTRY["head"], (IDS[1], 10_000), 300),
    "before": (REGISTRY["before"], (IDS[1], True, NOW, "k", 10_000), 300),
    "lane_of": (REGISTRY["lane_of"], (IDS[1],), 20),
    "lock_lane": (REGISTRY["lock_lane"], (IDS[1],), 20),
    "end": (REGISTRY["end"], (IDS[1], NOW, "DROPPED", "x"), 100),
    "move": (REGISTRY["move"], (IDS[1], NOW), 100),
    "check_lane": (REGISTRY["check_lane"], (IDS[1], NOW), 100),
    "gauges": (GAUGES["queues"], (NOW + timedelta(hours=5), 10_000, NOW + timedelta(days=5)), 60_000),
    "stuck": (GAUGES["stuck"], (10_000,), 40_000),
    "counts": (QUEUES["counts"], ([f"q{n}" for n in range(10)], 10_000), 70_000),
    "scheduled": (REGISTRY["scheduled"], ("q1", NOW, NOW + timedelta(hours=1), "", "", 100), 3000),
    "data": (REGISTRY["data"], (IDS[:10],), 300),
    "move, 1000 lanes": (PARTITIONS["move"], (IDS[1], 1000), 30_000),
    "left_behind": (PARTITIONS["left_behind"], (), 3000),
    "lane_partition": (REGISTRY["partition"], (IDS[1],), 20),
    "dapr_get": (DAPR["get"], (IDS[1],), 300),
    "dapr_list": (DAPR["list"], ("q1", "key1"), 20_000),
    "dapr_some": (DAPR["some"], ("q1", "key1", 1000), 9000),
    "dapr_end": (DAPR["end"], (IDS[:10], NOW, "deleted"), 1000),
    "dapr_check_lanes": (DAPR["check_lanes"], (IDS[:10], NOW), 1000),
}
#: Tables with a row for each of a few things.
SMALL = {"task_partitions", "task_queues", "task_layout"}


def scanned(plan: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from one end to the other."""
    found = (node for node in nodes(plan) if node["Node Type"] == "Seq Scan")
    return {node["Relation Name"] for node in found if "Relation Name" in node} - SMALL


async def explained(pool: asyncpg.Pool, options: str, statement: str, *arguments: object) -> dict[str, Any]:
    """The plan; what the statement wrote is rolled back."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        found = await connection.fetchval(f"EXPLAIN ({options}, FORMAT JSON) {statement}", *arguments)
        await transaction.rollback()
    return (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]


async def test_each_statement_reads_little_by_index(filled: asyncpg.Pool) -> None:
    """Also as PostgreSQL plans a prepared statement that is repeated: without its arguments. `beat` of the owners reads
    them, which are few, and the leases of lanes, of which there are at most 256.
    """
    for name, (statement, arguments, most) in STATEMENTS.items():
        plan = await explained(filled, "ANALYZE, BUFFERS", statement, *arguments)
        assert not scanned(plan), f"{name} reads all of {scanned(plan)}"
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert touched < most, f"{name} touches {touched} blocks"
        plan = await explained(filled, "GENERIC_PLAN", statement, *arguments)
        assert not scanned(plan), f"{name} reads all of {scanned(plan)} when it is repeated"
    second = timedelta(seconds=1)
    arguments = ("owner", "host", 1, 2, second, second, ["tasks-0001"], [1], "tasks-%", None)
    beat = queries("server/leases")["beat"].replace("workers", "task_owners")
    plan = await explained(filled, "ANALYZE, BUFFERS", beat, *arguments)
    assert scanned(plan) <= {"task_owners", "leases"}


async def test_the_lanes_ready_longest_go_first_and_a_stuck_one_with_100_000_due_tasks_costs_nothing(
    filled: asyncpg.Pool,
) -> None:
    async with filled.acquire() as connection, connection.transaction():
        rows = await connection.fetch(DELIVERY["lock_due"], PARTS, EPOCHS, "q1", NOW + timedelta(days=5), 64)
    oldest = await filled.fetch(
        "SELECT id FROM task_lanes WHERE queue = 'q1' AND ready_at IS NOT NULL ORDER BY ready_at, id LIMIT 64"
    )
    assert {row["id"] for row in rows} == {row["id"] for row in oldest}

    await filled.execute("UPDATE tasks SET lane_id = $1 WHERE state = 'WAITING'", IDS[0])
    await filled.execute("VACUUM ANALYZE tasks")
    plan = await explained(filled, "ANALYZE, BUFFERS", DELIVERY["start"], IDS[:10], NOW + timedelta(days=9), 1_000_000)

    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500


async def test_the_same_with_256_partitions_of_which_most_are_given_up(filled: asyncpg.Pool) -> None:
    await filled.execute("INSERT INTO task_partitions (partition, epoch) SELECT n, 0 FROM generate_series(16, 255) n")
    await filled.execute("UPDATE task_layout SET partitions = 3")
    await filled.execute("UPDATE task_lanes SET partition = hashtext(id) & 255")
    await filled.execute("VACUUM ANALYZE task_lanes, task_partitions")
    many, now = list(range(256)), NOW + timedelta(days=5)
    for name, statement, arguments, most in (
        ("next_ready", DELIVERY["next_ready"], ([f"q{n}" for n in range(10)], many), 15_000),
        ("lock_due", DELIVERY["lock_due"], (many, [0] * 256, "q1", now, MANY), 15_000),
        ("left_behind", PARTITIONS["left_behind"], (), 20_000),
        ("counts", QUEUES["counts"], ([f"q{n}" for n in range(10)], 10_000), 90_000),
        ("gauges", GAUGES["queues"], (NOW + timedelta(hours=5), 10_000, NOW + timedelta(days=5)), 110_000),
        ("move", PARTITIONS["move"], (IDS[1], 1000), 30_000),
    ):
        plan = await explained(filled, "ANALYZE, BUFFERS", statement, *arguments)
        assert not scanned(plan), f"{name} reads all of {scanned(plan)}"
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert touched < most, f"{name} touches {touched} blocks"

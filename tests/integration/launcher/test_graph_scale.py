"""Graphs with many nodes: wide steps, and the plans of queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from time import perf_counter
from typing import Any

import pytest

from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import MOST_VALUES
from streamsched.domain.jobs.job import ReadyJob
from streamsched.store.graph import rows
from streamsched.store.jobs.submissions import insert
from streamsched.store.sql import queries

from .conftest import World
from .graphs import Graphs, task

pytestmark = pytest.mark.postgres


@pytest.fixture
async def graphs(world: World) -> Graphs:
    return Graphs(world)


async def test_one_parent_makes_10_000_children_ready_at_once(graphs: Graphs) -> None:
    wide = task("{d}_{n}", "a", autofill_values={"n": "10000"})
    await graphs.put({"a": task("{d}"), "b": wide})
    await graphs.submit("a", "1")
    await graphs.end((await graphs.launch())[0])
    began = perf_counter()
    await graphs.progress()
    took = perf_counter() - began
    assert sum(job.schedule == "default.app.b" for job in await graphs.world.stored_jobs()) == 10_000
    assert took < 20, f"{took:.1f} s"


async def test_10_000_parents_release_one_child(graphs: Graphs) -> None:
    wide = task("{d}_{n}", autofill_values={"n": "10000"})
    await graphs.put({"a": wide, "b": {"job_id": "{d}", "depends_on": {"task": ["a"], "n": "all"}}})
    assert await graphs.submit("b", "1") == 10_000
    await graphs.world.complete_nodes("a", but="1_77")
    began = perf_counter()
    await graphs.progress()
    took = perf_counter() - began
    assert (await graphs.states())["b 1"] == "WAITING"
    await graphs.world.complete_nodes("a")
    await graphs.progress()
    assert (await graphs.states())["b 1"] == "QUEUED"
    assert took < 20, f"{took:.1f} s"


@pytest.mark.nightly
@pytest.mark.long
async def test_100_000_nodes_are_ready_at_once(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = list[int]()

    async def counting(connection: Any, jobs: Sequence[tuple[ReadyJob, str]], now: datetime) -> int:
        statements.append(len(jobs))
        return await insert(connection, jobs, now)

    monkeypatch.setattr(rows, "insert", counting)
    await graphs.put({"a": task("{d}")})
    assert await graphs.submit("a", *(str(n) for n in range(100_000))) == 100_000
    assert len(await graphs.world.waiting()) == 100_000
    assert await graphs.world.launcher.run_once()
    assert max(statements) <= 5_000, "PostgreSQL ends a transaction that computes for 10 s between two statements"


@pytest.mark.nightly
@pytest.mark.long
async def test_a_node_with_exactly_100_000_parents_waits_for_the_last_of_them(graphs: Graphs) -> None:
    wide = task("{n}", autofill_values={"n": str(MOST_VALUES)})
    needing = {"depends_on": {"task": ["a"], "n": "all"}, "autofill_values": {"d": [1]}}
    await graphs.put({"a": wide, "b": task("{d}", **needing)})
    assert await graphs.submit("b", "1") == MOST_VALUES
    await graphs.world.complete_nodes("a", but="7")
    await graphs.progress()
    assert [(node.state, node.groups[1]) for node in await graphs.world.nodes("b")] == [("WAITING", 1)]
    await graphs.world.complete_nodes("a")
    await graphs.progress()
    assert [(node.state, node.groups[1]) for node in await graphs.world.nodes("b")] == [("QUEUED", 0)]


MANY = """
INSERT INTO graphs VALUES ('default.big', 2, '{}', now());
INSERT INTO graph_nodes (app, task, job_id, state, reported, groups, round, again, generation, job, reason, created_at,
    changed_at)
SELECT 'default.big', 't' || n % 10, n::text, 'COMPLETED', 'complete', '{0,0,0,0}', 1, false, 2, 'job' || n, '', now(),
    now()
FROM generate_series(1, 300000) n;
UPDATE graph_nodes SET reported = 'missing' WHERE job_id IN ('7', '8');
UPDATE graph_nodes SET generation = 1 WHERE job_id = '9';
UPDATE graph_nodes SET state = 'WAITING', reported = 'missing', held = true WHERE job_id IN ('10', '11', '12');
ANALYZE graph_nodes;
"""
PLANS = [
    ("nodes", "'default.big', ARRAY['t1', 't2'], ARRAY['1', '2']"),
    ("states", "'default.big', ARRAY['t1', 't2'], ARRAY['1', '2']"),
    ("views", "'default.big', ARRAY['t1', 't2'], ARRAY['1', '2']"),
    ("page", "'default.big', 't1', 'COMPLETED', 't1', '5', 30"),
    ("ends", "100"),
    ("unreported", "100, now()"),
    ("postpone", "'default.big', ARRAY['t1', 't2'], ARRAY['1', '2'], ARRAY['', ''], now()"),
    ("outdated", "100"),
    ("held", "100"),
    ("old", "now(), '-infinity', '', '', '', 100"),
    ("delete", "'default.big', ARRAY['t1', 't2'], ARRAY['1', '2'], now()"),
    ("ring_graphs", "ARRAY['default.big.t0', 'default.big.t5']"),
    ("arrive", "ARRAY['default.big'], ARRAY['t1'], ARRAY['1'], ARRAY['job'], now()"),
]
#: Queries of other files.
FILES = {"ring_graphs": "catalog/catalog", "arrive": "runs/arrived_nodes"}


TYPES = {
    **dict.fromkeys(("nodes", "states", "views"), "text, text[], text[]"),
    "page": "text, text, text, text, text, bigint",
    "unreported": "bigint, timestamptz",
    "postpone": "text, text[], text[], text[], timestamptz",
    "old": "timestamptz, timestamptz, text, text, text, bigint",
    "delete": "text, text[], text[], timestamptz",
    "ring_graphs": "text[]",
    "arrive": "text[], text[], text[], text[], timestamptz",
}


async def test_no_query_of_the_loop_scans_the_nodes(world: World) -> None:
    await world.pool.execute(MANY, timeout=120)
    async with world.pool.acquire() as connection:
        for query, arguments in PLANS:
            sql = queries(FILES.get(query, "graph/nodes"))[query]
            await connection.execute(f"PREPARE plan ({TYPES.get(query, 'bigint')}) AS {sql}")
            rows = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE plan ({arguments})")
            await connection.execute("DEALLOCATE plan")
            assert "graph_nodes" not in _scanned(json.loads(rows[0][0])[0]["Plan"]), query


def _scanned(plan: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from end to end."""
    own = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set[str]()
    return own.union(*(_scanned(each) for each in plan.get("Plans", ())))


async def test_states_of_the_database_are_those_of_the_machine(world: World) -> None:
    await world.pool.execute("INSERT INTO graphs VALUES ('default.x', 1, '{}', now())")
    for state in NodeState:
        await world.pool.execute(
            "INSERT INTO graph_nodes (app, task, job_id, state, reported, groups, round, again, generation, job, "
            "reason, created_at, changed_at) "
            "VALUES ('default.x', 't', $1, $1, 'missing', '{}', 0, false, 1, $1, '', now(), now())",
            state.value,
        )
    unreported = sorted(node.state for node in await world.nodes() if node.unreported)
    assert unreported == sorted(set(NodeState) - {NodeState.WAITING, NodeState.QUEUED})

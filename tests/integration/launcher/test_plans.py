"""Query plans: what runs all the time reads what is alive, never the history behind it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from streamsched.store.sql import queries

pytestmark = pytest.mark.postgres

#: What a partition's name adds to its table's.
PART = re.compile(r"_(\d{8}|rest)$")
HISTORY = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, ended_at)
SELECT format('default.app.s%s.1.%s', n % 100, n), format('default.app.s%s', n % 100), 1, n,
    format('default.app.p%s', n % 10), 'LAUNCHED', now(), now(), '{}', now()
FROM generate_series(1, 1000000) n;
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, ended_at, runner)
SELECT id || '.r1', id, 1, program, '{}', '{}', 'COMPLETED', now(), now(), 'h:1:1' FROM jobs;
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, next_check_at)
SELECT format('default.app.s%s.1.%s', n % 100, n), format('default.app.s%s', n % 100), 1, n,
    format('default.app.p%s', n % 10), 'PENDING_CONSTRAINT', now(), now(), '{}', now()
FROM generate_series(1000001, 1000300) n;
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, runner, heartbeat_at)
SELECT format('far.%s', n), 1, 'default.app.far', '{}', '{}', 'RUNNING', now(), 'far:1:1',
    now() - n * interval '1 second'
FROM generate_series(1, 5000) n;
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, checked_at,
    spared_at)
SELECT format('default.app.pooled.1.%s', n), 'default.app.pooled', 1, n, 'default.app.pooled', 'PENDING_CONSTRAINT',
    now() - interval '1 day', now(), '{}', now(), now()
FROM generate_series(1, 600) n;
INSERT INTO groups (name) SELECT format('g%s', n) FROM generate_series(0, 9) n;
INSERT INTO group_waits (group_name, job, satisfied_at)
    SELECT format('g%s', sequence % 10), id, satisfied_at FROM jobs WHERE sequence > 1000000;
INSERT INTO lines SELECT id, 'x', satisfied_at, sequence FROM jobs WHERE sequence > 1000000;
INSERT INTO groups (name) VALUES ('pool:x');
INSERT INTO clusters (name) VALUES ('c');
INSERT INTO gates (cluster, terms) VALUES ('c', '{}');
INSERT INTO gate_waits SELECT id, 'c', '{}', satisfied_at FROM jobs WHERE sequence > 1000000;
INSERT INTO meters SELECT format('key default.app.s1 %s', n), 1, interval '1 minute', 1, 0, now(), now()
FROM generate_series(1, 9999) n;
INSERT INTO decisions (at, subject_kind, subject, action) SELECT now(), 'job', id, 'x' FROM jobs;
SELECT make_part_v1(parent, day, day + interval '1 day')
FROM generate_series('2026-01-01Z'::timestamptz, '2026-01-10Z', '1 day') AS day,
    unnest(ARRAY['jobs_history', 'runs_history']) AS parent;
INSERT INTO jobs_history (done_at, id, schedule, state, created_at, runs, record)
SELECT '2026-01-01Z'::timestamptz + n * interval '5 seconds', format('default.app.s%s.0.%s', n % 100, n),
    format('default.app.s%s', n % 100), 'LAUNCHED', '2026-01-01Z'::timestamptz + n * interval '5 seconds',
    ARRAY[format('default.app.s%s.0.%s.r1', n % 100, n)], '{}'
FROM generate_series(1, 100000) n;
INSERT INTO jobs_history (done_at, id, schedule, state, created_at, runs, record)
SELECT at, id, 'default.app.busy', 'LAUNCHED', at, ARRAY[id || '.r1'], '{"generation": 1}'
FROM generate_series(1, 20000) n, format('default.app.busy.1.%s', n) AS id,
    LATERAL (SELECT '2026-01-10Z'::timestamptz - n * interval '1 second') AS t (at);
INSERT INTO runs_history (done_at, id, program, schedule, state, created_at, record)
SELECT done_at, runs[1], 'default.app.p1', schedule, 'COMPLETED', created_at, '{}' FROM jobs_history;
INSERT INTO deadlines SELECT id, '', 0, now() + interval '1 day', '{}' FROM jobs WHERE sequence % 50 = 0;
INSERT INTO timers SELECT format('default.app.s%s', n), '', 1, now() + interval '1 day', now() + interval '1 day'
FROM generate_series(1, 5000) n;
INSERT INTO wakes (schedule, cell, generation, at, due_at)
SELECT format('default.app.s%s', n), '', 1, now() + interval '1 day', now() + interval '1 day'
FROM generate_series(1, 5000) n;
INSERT INTO jobs_spent SELECT DISTINCT schedule, 0, 100000 FROM jobs_history;
"""
#: A partition with next to nothing in it may be scanned.
ACTIVE = {"jobs", "runs", "meters", "deadlines"}
ARCHIVED = ACTIVE | {"jobs_history", "runs_history", "work_decisions", "audit_decisions"}


@pytest.fixture
async def archive(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A database with a long history and a few jobs that wait."""
    connection = await asyncpg.connect(database)
    # A million rows go in many times as fast without their secondary indexes, which are built afterwards, and without
    # a look at what they refer to.
    spared = await connection.fetch(
        "SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index "
        "WHERE indrelid IN ('jobs'::regclass, 'runs'::regclass, 'decisions'::regclass) "
        "AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)"
    )
    await connection.execute("SET session_replication_role = replica; SET maintenance_work_mem = '256MB'")
    for index in spared:
        await connection.execute(f"DROP INDEX {index['name']}")
    await connection.execute(HISTORY, timeout=250)
    for index in spared:
        await connection.execute(index["definition"].replace(" ON ONLY ", " ON "), timeout=60)
    await connection.execute("SET session_replication_role = DEFAULT; ANALYZE")
    try:
        yield connection
    finally:
        await connection.close()


HOT = [
    ("docket", "due", "now(), 10"),
    ("docket", "next_due", ""),
    ("docket", "recall", "now() - interval '1 minute'"),
    ("docket", "due_of_programs", "ARRAY['default.app.p1', 'default.app.p2'], now(), 100"),
    ("docket", "lock_cases", "ARRAY['default.app.s1.1.1000001'], ARRAY['default.app.p1']"),
    ("docket", "siblings", "ARRAY['default.app.s1']"),
    ("docket", "own_runs", "ARRAY['default.app.p1'], ARRAY['default.app.s1']"),
    ("rulings", "stop_runs", "now(), ARRAY['default.app.s1.1.1000001.r1'], ARRAY['x'], ARRAY[true]"),
    ("runs", "condemned", ""),
    ("runs", "overdue", "now(), 'late'"),
    ("runs", "schedules", "'default.app.p1'"),
    ("jobs", "satisfied", "'default.app.s1', now() - interval '1 hour', now()"),
    ("jobs", "changes", "'default.app.s1', now()"),
    ("jobs", "tallies", "'default.app.s1'"),
    ("jobs", "launch", "'default.app.s1.1.1000001'"),
    ("jobs", "typical", "'default.app.p1'"),
    ("docket", "joiners", "ARRAY['default.app.s1.1.1000001']"),
    ("docket", "elders", "ARRAY['default.app.s1']"),
    ("clusters", "lock", "ARRAY['c'], ARRAY['{}']"),
    ("clusters", "wake", "'c', '{}', 4"),
    ("clusters", "wanted", "now(), now(), now()"),
    ("clusters", "forget", ""),
    ("lines", "first", "ARRAY['x'], 300"),
    ("lines", "pools", "ARRAY['default.app.s1.1.1000001']"),
    ("lines", "leave", "ARRAY['default.app.s1.1.1000001']"),
    ("lines", "reorder", "'x', NULL"),
    ("lines", "list", "NULL"),
    ("lines", "forget", ""),
    ("groups", "wake_lines", "ARRAY['pool:x'], ARRAY[4]"),
    ("meters", "lock", "ARRAY['key default.app.s1 7']"),
    ("meters", "forget", "now() - interval '1 day'"),
    ("docket", "facts", "ARRAY['default.app.p1', 'default.app.p2']"),
    ("runs", "wake", "'default.app.p1'"),
    ("runs", "wake", "'default.app.pooled'"),
    ("runs", "state", "'default.app.s1.1.1000001.r1'"),
    ("runs", "unclaimed", "now(), ARRAY[now()], 32, 0.2"),
    ("runs", "unclaimed_quick", "now(), ARRAY[now()], 32, 0.2"),
    ("runs", "next_spawn", ""),
    ("runs", "next_quick", ""),
    ("runs", "hopeless", "now(), 3"),
    ("runs", "silent", "now(), 100, now() - interval '1 hour', 'far.1'"),
    ("runs", "beat", "'default.app.s1.1.1000001.r1', 'h:1:1', now()"),
    ("jobs", "recent", "NULL, ARRAY[]::text[], 100"),
    ("jobs", "get", "'default.app.s1.0.1'"),
    ("jobs", "ready", "'default.app.s1.0.1', true"),
    ("runs", "get", "'default.app.s1.0.1.r1'"),
    ("runs", "recent", "NULL, ARRAY[]::text[], 100"),
    ("trails", "taker", "ARRAY['default.app.s1.0.1'], '{}', now()"),
    ("breaks", "latest", "'default.app.busy', 2, 3, 'late', '2026-01-10T12:00Z'"),
    ("deadlines", "due", "now(), 100"),
    ("deadlines", "next_due", ""),
    ("deadlines", "get", "'default.app.s1.1.1000001', '', 0::smallint"),
    ("deadlines", "lock", "'default.app.s1.1.1000001', '', 0::smallint"),
    ("deadlines", "lock_job", "'default.app.s1.1.1000001'"),
    ("deadlines", "runs", "'default.app.s1.1.1000001', ''"),
    ("deadlines", "of_job", "'default.app.s1.1.1000001'"),
    ("archive", "pick_jobs", "now(), '-infinity', '', 1000"),
    ("archive", "pick_runs", "now() - interval '1 day', '-infinity', '', 1000"),
    ("archive", "known_runs", "ARRAY['default.app.s1.1.1.r1', 'default.app.s1.0.1.r1']"),
    ("archive", "spend", "ARRAY['default.app.s1.1.1']"),
    ("archive", "move_jobs", "ARRAY['default.app.s1.1.1'], ARRAY[timestamptz '2026-01-03Z'], '2026-01-01Z'"),
    ("archive", "move_runs", "ARRAY['default.app.s1.1.1.r1'], ARRAY[timestamptz '2026-01-03Z'], '2026-01-01Z'"),
    ("catalog", "end_jobs", "'default.app.s1', 2, 'updated', now(), 'default.app.p1'"),
    ("catalog", "keep_jobs", "'default.app.s1', 'default.app.p1'"),
    ("catalog", "release_runs", "'default.app.s1', true, 2"),
    ("groups", "lock_held", "ARRAY['default.app.s1.1.1.r1']"),
    ("crowd", "going_on", "ARRAY['default.app.s1.1.1000001.r1']"),
    ("crowd", "lock_schedules", "ARRAY['default.app.s1.1.1000001.r1']"),
    ("crowd", "claim", "ARRAY['default.app.s1.1.1000001.r1'], 'h:1:1', '', now()"),
    ("crowd", "beat", "ARRAY['default.app.s1.1.1000001.r1'], 'h:1:1', now()"),
    ("crowd", "live", "ARRAY['default.app.s1.1.1000001.r1']"),
    ("crowd", "wake", "ARRAY['default.app.p1', 'default.app.p2']"),
    ("crowd", "wake", "ARRAY['default.app.pooled', 'default.app.p2']"),
    ("groups", "leave", "ARRAY['default.app.s1.1.1000001']"),
    ("groups", "taken", "ARRAY['g1']"),
    ("groups", "list", "ARRAY['g1']"),
    ("groups", "wake", "ARRAY['g1'], ARRAY[100]"),
    ("jobs", "history", "ARRAY['default.app.s1.1.1000001']"),
    ("reports", "tell", "'w', ARRAY[0], ARRAY[1::bigint], ARRAY['{}'::jsonb]"),
    ("reports", "told", ""),
    ("reports", "leases", ""),
    ("reports", "taken", ""),
    ("reports", "queues", ""),
]


async def test_no_hot_query_scans_the_history(archive: asyncpg.Connection) -> None:
    faults = {each: await faults_of(archive, *each) for each in HOT}

    assert not {query: found for query, found in faults.items() if found}


async def faults_of(archive: asyncpg.Connection, file: str, name: str, arguments: str) -> list[str]:
    await archive.execute(f"DEALLOCATE ALL; PREPARE {file}_{name} AS {queries(file)[name]}")
    asked = f"EXECUTE {file}_{name}({arguments})" if arguments else f"EXECUTE {file}_{name}"
    async with archive.transaction():
        answer = await archive.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {asked}")
    faults: list[str] = []
    for node in nodes(json.loads(answer)[0]["Plan"]):
        relation = node.get("Relation Name")
        table = PART.sub("", relation or "")
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        if name == "wake" and file in ("runs", "crowd") and relation == "jobs" and seen > 100:
            faults.append(f"looks through {seen} jobs that wait")
        if node["Node Type"] == "Seq Scan" and table in ARCHIVED and (table in ACTIVE or node["Actual Rows"] > 100):
            faults.append(f"scans {relation}")
        if (removed := node.get("Rows Removed by Filter", 0)) > 1000:
            faults.append(f"reads {removed} rows of {relation} in vain")
    return faults


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)

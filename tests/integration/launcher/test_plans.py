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
PART = re.compile(r"_(\d{8}(\d\d)?|rest)$")
HISTORY = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, ended_at,
    ancestors)
SELECT format('default.app.s%s.1.%s', n % 100, n), format('default.app.s%s', n % 100), 1, n,
    format('default.app.p%s', n % 10), 'LAUNCHED', now(), now(), '{}', now(),
    CASE WHEN n % 20 = 1 THEN format('{"jobs": {"p": ["j%s"]}}', n / 40)::jsonb END
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
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, runner, heartbeat_at)
SELECT format('near.%s', n), 1, 'default.app.near', '{"type": "http"}', '{}', 'RUNNING', now(),
    format('near:%s:1', n % 50), now() - n * interval '1 second'
FROM generate_series(1, 5000) n;
INSERT INTO launchers SELECT format('near:%s:1', n), now(), now() + interval '1 minute' FROM generate_series(0, 49) n;
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
INSERT INTO lane_waits SELECT id, schedule, 'key', md5('k' || sequence % 9), satisfied_at, sequence FROM jobs
    WHERE sequence > 1000000;
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
INSERT INTO preferences SELECT format('n%s', n), '{}' FROM generate_series(1, 5000) n;
INSERT INTO namespaces SELECT format('n%s', n), now() FROM generate_series(1, 5000) n;
INSERT INTO programs SELECT format('n%s.app.p', n), format('n%s.app', n), '{}', now(), now()
FROM generate_series(1, 5000) n;
INSERT INTO jobs_spent SELECT DISTINCT schedule, 0, 100000 FROM jobs_history;
INSERT INTO backfills (id, schedule, request, state, max_active, newest_first, items, skipped, active, created_at,
    changed_at, ended_at, fed_at)
SELECT format('default.app.s%s.backfill-%s', n % 100, n), format('default.app.s%s', n % 100), '{}',
    CASE WHEN n > 10 THEN 'COMPLETED' ELSE 'RUNNING' END, 4, false, 100, 0, 0, now(), now(),
    CASE WHEN n > 10 THEN now() END, now()
FROM generate_series(1, 5000) n;
INSERT INTO backfill_items
SELECT format('default.app.s%s.backfill-%s', n % 100, n), item,
    CASE WHEN item > 20 THEN 'WAITING' WHEN item > 16 THEN 'ACTIVE' ELSE 'SUCCEEDED' END, '{}'
FROM generate_series(1, 1000) n, generate_series(1, 100) item;
"""
#: A partition with next to nothing in it may be scanned.
ACTIVE = {"jobs", "runs", "meters", "deadlines", "preferences", "namespaces", "backfills", "backfill_items"}
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


#: No deadline is set apart.
NONE = "'{}'::text[], '{}'::text[], '{}'::smallint[]"
HOT = [
    ("jobs/decisions", "due", "now(), 10"),
    ("jobs/decisions", "next_due", ""),
    ("jobs/decisions", "recheck_all", "now() - interval '1 minute'"),
    ("jobs/decisions", "due_of_programs", "ARRAY['default.app.p1', 'default.app.p2'], now(), 100"),
    ("jobs/decisions", "due_jobs", "'default.app.p1', now(), 512"),
    ("jobs/decisions", "past_runs", "'default.app.p1', 100"),
    ("catalog/progress", "newest_keys", "'default.app.s1', 200"),
    ("jobs/decisions", "due_of_jobs", "ARRAY['default.app.s1.1.1000001'], ARRAY['default.app.p1'], now()"),
    ("jobs/jobs", "pauses", "'default.app.s1', now() - interval '1 hour', NULL"),
    ("jobs/decisions", "lock_jobs", "ARRAY['default.app.s1.1.1000001'], ARRAY['default.app.p1']"),
    ("jobs/decisions", "siblings", "ARRAY['default.app.s1']"),
    ("jobs/decisions", "own_runs", "ARRAY['default.app.p1'], ARRAY['default.app.s1']"),
    ("jobs/decision_writes", "stop_runs", "now(), ARRAY['default.app.s1.1.1000001.r1'], ARRAY['x'], ARRAY[true]"),
    ("runs/ending", "stop_requested", ""),
    ("runs/ending", "committed", "ARRAY['default.app.s1.1.1.r1', 'default.app.s1.1.2.r1']"),
    ("runs/fences", "due", "now(), ARRAY[now()], 4"),
    ("runs/fences", "order", "'default.app.s1.1.1.r1'"),
    ("runs/fences", "want", "'default.app.s1.1.1.r1', 'x', now(), false, ARRAY['default.app.s1.1.2.r1']"),
    ("runs/fences", "written", "'default.app.s1.1.1.r1', 'x', true"),
    ("runs/ending", "overdue", "now(), 'late'"),
    ("runs/ending", "schedules", "'default.app.p1'"),
    ("runs/ending", "activity", "ARRAY['default.app.p1', 'default.app.far', 'default.app.near']"),
    ("jobs/jobs", "satisfied", "'default.app.s1', now() - interval '1 hour', now(), 1000"),
    ("jobs/jobs", "changes", "'default.app.s1', now()"),
    ("events/event_traces", "totals", "'default.app.s1'"),
    ("jobs/jobs", "launch", "'default.app.s1.1.1000001'"),
    ("jobs/descendants", "latest", "'p', ARRAY['j3', 'j77'], ARRAY['default.app.p1', 'default.app.p1']"),
    ("catalog/program_links", "links", "'default.app', 'default', ARRAY['default.app.p1']"),
    ("jobs/jobs", "typical", "'default.app.p1'"),
    ("jobs/decisions", "lock_programs", "ARRAY['default.app.p1', 'default.app.p2'], now(), 100"),
    ("catalog/preferences", "get", "'n7'"),
    ("catalog/preferences", "of_runs", "'n7'"),
    ("catalog/preferences", "lock", "'n7'"),
    ("jobs/decisions", "coalesced", "ARRAY['default.app.s1.1.1000001']"),
    ("jobs/decisions", "oldest_waiting_jobs", "ARRAY['default.app.s1'], ARRAY['default.app.s2']"),
    ("jobs/decisions", "program_schedules", "ARRAY['default.app.p1']"),
    ("jobs/submissions", "known", "'default.app.s1.0.1'"),
    ("jobs/submissions", "former", "'default.app.s1.0.1'"),
    ("jobs/submissions", "lock_schedule", "'default.app.s1'"),
    ("jobs/submissions", "program", "'default.app.p1'"),
    ("jobs/submissions", "latest_number", "'default.app.s1', 1"),
    (
        "jobs/submissions",
        "submit",
        "ARRAY['default.app.s1.submitted-t'], ARRAY['default.app.s1'], ARRAY['default.app.p1'], ARRAY[1], ARRAY[7], "
        "ARRAY['{}'], ARRAY['x'], ARRAY['by hand'], now(), ARRAY['default.app.s1.1.7'], ARRAY[true], "
        "ARRAY[now()], ARRAY['b'], ARRAY[NULL]",
    ),
    ("jobs/failed_jobs", "failed", "'default.app.s1', now() - interval '1 hour', 100, ARRAY['FAILED']"),
    ("jobs/failed_jobs", "readies", "ARRAY['default.app.s1.0.1', 'default.app.s1.1.1']"),
    ("jobs/backfills", "schedule", "'default.app.s1'"),
    ("jobs/backfills", "known", "'default.app.s1', 1000, '$.key', '{}', ARRAY['a', 'b']"),
    ("jobs/backfills", "get", "'default.app.s1.backfill-1'"),
    ("jobs/backfills", "lock", "'default.app.s1.backfill-1'"),
    ("jobs/backfills", "recent", "NULL, 100, 'infinity', '', NULL"),
    ("jobs/backfills", "recent", "'default.app.s1', 100, 'infinity', '', 'default'"),
    ("jobs/backfills", "items", "'default.app.s1.backfill-1', ARRAY['ACTIVE'], 0, 50"),
    ("jobs/backfills", "command", "'default.app.s1.backfill-1', 'hold', 'x', NULL, now(), 'job.hold_ordered'"),
    ("jobs/backfills", "to_feed", "100"),
    ("jobs/backfills", "any_to_feed", ""),
    ("jobs/backfills", "ended", "ARRAY['default.app.s1.backfill-1', 'default.app.s2.backfill-2']"),
    ("jobs/backfills", "ended_before", "ARRAY['default.app.s1.0.1']"),
    ("jobs/backfills", "failing", "ARRAY['default.app.s1.backfill-1'], ARRAY[20]"),
    ("jobs/backfills", "next_oldest", "ARRAY['default.app.s1.backfill-1'], ARRAY[4]"),
    ("jobs/backfills", "next_newest", "ARRAY['default.app.s1.backfill-1'], ARRAY[4]"),
    ("jobs/backfills", "set_items", "ARRAY['default.app.s1.backfill-1'], ARRAY[21], ARRAY['ACTIVE']"),
    (
        "jobs/backfills",
        "set_counts",
        "now(), ARRAY['default.app.s1.backfill-1'], ARRAY[1], ARRAY[1], ARRAY[1], ARRAY[1]",
    ),
    ("jobs/backfills", "forget", "now() - interval '1 day'"),
    ("limits/clusters", "lock", "ARRAY['c'], ARRAY['{}']"),
    ("limits/clusters", "wake", "'c', '{}', 4"),
    ("limits/clusters", "wanted", "now(), now(), now()"),
    ("limits/clusters", "forget", ""),
    ("limits/pools", "first", "ARRAY['x'], 300"),
    ("limits/pools", "pools", "ARRAY['default.app.s1.1.1000001']"),
    ("limits/pools", "leave", "ARRAY['default.app.s1.1.1000001']"),
    ("limits/pools", "reorder", "'x', NULL"),
    ("limits/pools", "list", "NULL, '', NULL"),
    ("limits/pools", "forget", ""),
    ("limits/groups", "wake_lines", "ARRAY['pool:x'], ARRAY[4]"),
    ("limits/lanes", "first", "ARRAY['default.app.s1'], ARRAY['key'], ARRAY[md5('k1')], ARRAY[2::bigint]"),
    ("limits/lanes", "wake", "ARRAY['default.app.s1'], ARRAY['key'], ARRAY[md5('k1')], ARRAY[2::bigint]"),
    ("limits/lanes", "wake_after", "ARRAY['default.app.s1.1.1.r1']"),
    ("limits/lanes", "leave", "ARRAY['default.app.s1.1.1000001']"),
    ("limits/lanes", "runs", "'default.app.p1', 'default.app.s1', NULL"),
    ("limits/lanes", "forget", ""),
    ("limits/rates", "lock", "ARRAY['key default.app.s1 7']"),
    ("limits/rates", "forget", "now() - interval '1 day'"),
    ("jobs/decisions", "facts", "ARRAY['default.app.p1', 'default.app.p2']"),
    ("runs/ending", "wake", "ARRAY['default.app.p1', 'default.app.p2']"),
    ("runs/ending", "wake", "ARRAY['default.app.pooled', 'default.app.p2']"),
    ("runs/ending", "state", "'default.app.s1.1.1000001.r1'"),
    ("runs/ending", "claim_inline", "now(), ARRAY[now()], 32, 0.2, 'h:1:1'"),
    ("limits/process_room", "held", "'host', now(), ARRAY['h']"),
    ("limits/process_room", "any_pending", "'host', now(), 3"),
    ("limits/process_room", "pending", "'host', now(), 3, 8"),
    ("limits/process_room", "waiting", "'host', 8"),
    ("limits/process_room", "claim", "ARRAY['far.1'], now(), ARRAY[now()], 0.2"),
    ("limits/process_room", "wake", "'host', ARRAY['default'], ARRAY[''], ARRAY[8]"),
    ("runs/ending", "any_wait", ""),
    ("runs/ending", "next_spawns", ""),
    ("runs/ending", "unclaimed_too_often", "now(), 3"),
    ("runs/ending", "silent", "now(), 100, now() - interval '1 hour', 'far.1'"),
    ("runs/ending", "beat", "'default.app.s1.1.1000001.r1', 'h:1:1', now(), '{}'"),
    ("jobs/jobs", "recent", "NULL, ARRAY[]::text[], 100, NULL, 'infinity', ''"),
    ("jobs/jobs", "get", "'default.app.s1.0.1'"),
    ("jobs/jobs", "ready", "'default.app.s1.0.1', true"),
    ("runs/ending", "get", "'default.app.s1.0.1.r1'"),
    ("runs/provenance", "run", "'default.app.s1.0.1.r1'"),
    ("runs/provenance", "run", "'default.app.s1.1.1.r1'"),
    ("runs/provenance", "chain", "'default.app.s1.1.1', 100"),
    ("runs/ending", "recent", "NULL, ARRAY[]::text[], 100, NULL, 'infinity', ''"),
    ("runs/ending", "recent", "NULL, ARRAY['FAILED'], 51, NULL, 'infinity', ''"),
    ("runs/ending", "recent", "NULL, ARRAY['KILLED', 'LOST'], 51, NULL, 'infinity', ''"),
    ("runs/ending", "recent", "'default.app.p1', ARRAY['FAILED', 'LOST'], 51, NULL, 'infinity', ''"),
    ("runs/ending", "recent", "NULL, ARRAY['RUNNING', 'STARTING'], 51, NULL, 'infinity', ''"),
    ("events/event_traces", "consuming_job", "ARRAY['default.app.s1.0.1'], '{}', now()"),
    ("runs/failure_streaks", "latest", "'default.app.busy', 2, 3, 'late', '2026-01-10T12:00Z'"),
    ("runs/deadlines", "due", f"now(), 100, {NONE}"),
    ("runs/deadlines", "next_due", NONE),
    ("runs/deadlines", "get", "'default.app.s1.1.1000001', '', 0::smallint"),
    ("runs/deadlines", "lock", "'default.app.s1.1.1000001', '', 0::smallint"),
    ("runs/deadlines", "lock_job", "'default.app.s1.1.1000001'"),
    ("runs/deadlines", "runs", "'default.app.s1.1.1000001', ''"),
    ("runs/deadlines", "of_job", "'default.app.s1.1.1000001'"),
    ("jobs/archive", "pick_jobs", "now(), '-infinity', '', 1000"),
    ("jobs/archive", "pick_runs", "now() - interval '1 day', '-infinity', '', 1000"),
    ("jobs/archive", "known_runs", "ARRAY['default.app.s1.1.1.r1', 'default.app.s1.0.1.r1']"),
    ("jobs/archive", "mark_archived", "ARRAY['default.app.s1.1.1']"),
    ("jobs/archive", "move_jobs", "ARRAY['default.app.s1.1.1'], ARRAY[timestamptz '2026-01-03Z'], '2026-01-01Z'"),
    ("jobs/archive", "move_runs", "ARRAY['default.app.s1.1.1.r1'], ARRAY[timestamptz '2026-01-03Z'], '2026-01-01Z'"),
    (
        "catalog/catalog",
        "end_jobs",
        "ARRAY['default.app.s1'], ARRAY[2], ARRAY['updated'], ARRAY[now()], ARRAY['default.app.p1']",
    ),
    ("catalog/catalog", "keep_jobs", "ARRAY['default.app.s1'], ARRAY['default.app.p1']"),
    ("catalog/catalog", "release_runs", "ARRAY['default.app.s1'], ARRAY[true], ARRAY[2]"),
    ("limits/namespace_runs", "count_active", "NULL"),
    ("catalog/quota_counts", "list", "NULL, '', NULL, now(), 10000, ARRAY['runs', 'schedules', 'accumulations']"),
    ("limits/groups", "lock_held", "ARRAY['default.app.s1.1.1.r1']"),
    ("runs/run_batch", "going_on", "ARRAY['default.app.s1.1.1000001.r1']"),
    ("runs/run_batch", "lock_schedules", "ARRAY['default.app.s1.1.1000001.r1']"),
    ("runs/run_batch", "claim", "ARRAY['default.app.s1.1.1000001.r1'], 'h:1:1', '', now()"),
    ("runs/run_batch", "beat", "ARRAY['default.app.s1.1.1000001.r1'], 'h:1:1', now()"),
    ("runs/run_batch", "starting", "ARRAY['near.7'], 'near:7:1'"),
    ("runs/run_batch", "start", "ARRAY['near.7'], now()"),
    ("runs/run_commits", "add", "ARRAY['near.7.r1'], ARRAY['near.7'], ARRAY['d c'], 1000, ARRAY['{}']"),
    ("runs/launchers", "release", "'near:7:1'"),
    ("runs/launchers", "expired", "'near:7:1', interval '1 s', NULL"),
    ("runs/launchers", "held", "'near:7:1'"),
    ("runs/launchers", "requeue", "ARRAY['near.7'], 'near:7:1', now(), 'gone'"),
    ("runs/launchers", "lock_schedules", "ARRAY['default.app.s1.1.1000001.r1']"),
    ("runs/launchers", "started", "ARRAY['near.7'], 'near:7:1'"),
    ("runs/launchers", "lose", "ARRAY['near.7'], 'gone', now()"),
    ("runs/launchers", "repeat", "ARRAY['near.7'], ARRAY['near.7.r2'], now(), ARRAY[now()]"),
    ("limits/groups", "hand_over", "ARRAY['near.7'], ARRAY['near.8']"),
    ("runs/run_batch", "live", "ARRAY['default.app.s1.1.1000001.r1'], ARRAY['default.app.p1']"),
    ("jobs/decision_writes", "leave", "ARRAY['default.app.s1.1.1000001']"),
    ("limits/groups", "taken", "ARRAY['g1']"),
    ("limits/groups", "list", "ARRAY['g1'], '', NULL"),
    ("limits/groups", "wake", "ARRAY['g1'], ARRAY[100], ARRAY['default.app.s1.1.1.r1']"),
    ("jobs/jobs", "history", "ARRAY['default.app.s1.1.1000001']"),
    (
        *("jobs/imported_runs", "add"),
        "ARRAY['default.app.p1.cdap-1.r1'], ARRAY['default.app.p1'], ARRAY['COMPLETED'], ARRAY[now()], ARRAY[now()], "
        "ARRAY[now()], ARRAY['{}'::jsonb], ARRAY['']",
    ),
    ("server/reports", "upsert_report", "'w', ARRAY[0], ARRAY[1::bigint], ARRAY['{}'::jsonb]"),
    ("server/reports", "reports", ""),
    ("server/reports", "leases", ""),
    ("positions", "all_positions", ""),
    ("server/reports", "queues", ""),
    ("web/activity_reads", "verdicts", "ARRAY['e1', 'e2']"),
    ("web/activity_reads", "late", "ARRAY['default.app.s1', 'default.app.s2'], ARRAY['e1', 'e2']"),
    ("web/activity_reads", "consumed", "'default.app.s1', 20, 100000"),
    ("web/activity_reads", "run_days", "NULL, ARRAY[date '2026-01-03', current_date], 1000"),
    ("web/activity_reads", "run_days_of_program", "'default.app.p1', ARRAY[date '2026-01-03', current_date], 1000"),
    ("web/link_reads", "standings", "ARRAY['default.app.s1', 'default.app.s2']"),
    ("web/link_reads", "last_runs", "ARRAY['default.app.p1', 'default.app.none']"),
]


async def test_no_hot_query_scans_the_history(archive: asyncpg.Connection) -> None:
    faults = {each: await faults_of(archive, *each) for each in HOT}

    bad = {query: found for query, found in faults.items() if found}
    assert not bad, "\n".join(f"{query}: {found}" for query, found in bad.items())


async def faults_of(archive: asyncpg.Connection, file: str, name: str, arguments: str) -> list[str]:
    prepared = f"{file.replace('/', '_')}_{name}"
    await archive.execute(f"DEALLOCATE ALL; PREPARE {prepared} AS {queries(file)[name]}")
    asked = f"EXECUTE {prepared}({arguments})" if arguments else f"EXECUTE {prepared}"
    async with archive.transaction():
        answer = await archive.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {asked}")
    assert answer is not None
    faults: list[str] = []
    for node in nodes(json.loads(answer)[0]["Plan"]):
        relation = node.get("Relation Name")
        table = PART.sub("", relation or "")
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        if name == "wake" and file == "runs/ending" and relation == "jobs" and seen > 100:
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

"""With 100,000 expectations, what launchers repeat is served by indexes, and all of one due time are soon judged."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from streamsched import App
from streamsched.store.sql import queries
from tests.integration.expectations.expectation_world import HOUR, NOW, SECOND, ExpectationWorld

pytestmark = pytest.mark.postgres

MANY = 100_000
_COPIES = """
INSERT INTO expectations (id, app, kind, subject, definition, created_at, changed_at, since, due_at, starts, recent)
SELECT 'default.shop.d' || n, app, kind, 'default.d' || n,
    definition || jsonb_build_object('name', 'd' || n, 'dataset', 'default.d' || n),
    created_at, changed_at, since, due_at, starts, recent
FROM expectations, generate_series(1, $1) n WHERE id = 'default.shop.flights';
"""
_EVIDENCE = """
INSERT INTO evidence
SELECT 'dataset', 'default.d' || n % $1, decode(lpad(to_hex(n), 8, '0'), 'hex'), $2::timestamptz - n * interval '1 s'
FROM generate_series(1, 3 * $1) n;
"""
_KEYS = """
INSERT INTO evidence_keys SELECT 'dataset', 'default.d' || n % $1, 'day=' || n, $2::timestamptz - n * interval '1 s'
FROM generate_series(1, 3 * $1) n;
"""
_MISSES = """
INSERT INTO expectation_misses SELECT 'default.shop.d' || m.n, $2::timestamptz - k * interval '1 day',
    ($2::timestamptz - k * interval '1 day') AT TIME ZONE 'UTC', '', 'x', $2, true, false, NULL
FROM generate_series(1, $1) AS m (n), generate_series(1, 2) k;
"""
_HISTORY = """
INSERT INTO decisions (at, subject_kind, subject, action, detail)
SELECT now(), 'run', 'default.app' || n % 100 || '.s.1.' || n || '.r1',
    CASE WHEN n % 1000 = 0 THEN 'run.failed' ELSE 'run.started' END,
    CASE WHEN n % 1000 = 0 THEN '{"failed": "run"}'::jsonb END
FROM generate_series(1, 300000) n;
INSERT INTO notice_recipients SELECT 'default.app' || n || '.x', 'default.app' || n, 0, '{"program": "p"}',
    CASE WHEN n % 100 = 0 THEN n END FROM generate_series(1, 20000) n;
ANALYZE;
"""
#: Statement, its arguments, and the most rows that it may look at.
REPEATED = [
    ("expectations/judgement", "read_to", (), 2),
    ("expectations/judgement", "due", ("dataset", NOW, 500, []), 0),
    ("expectations/judgement", "due", ("dataset", NOW + 21 * HOUR, 500, []), 600),
    ("expectations/judgement", "stirred", (500, []), 0),
    ("expectations/judgement", "next_due", ("dataset",), 1),
    ("expectations/judgement", "lock", ([f"default.shop.d{n}" for n in range(1, 501)],), 600),
    ("expectations/evidence", "expects", ("dataset",), 1),
    ("expectations/evidence", "known", ("dataset", [f"default.d{n}" for n in range(500)]), 600),
    ("expectations/evidence", "stir", ("dataset", [f"default.d{n}" for n in range(500)], NOW), 600),
    ("expectations/records", "page", (None, None, True, "", 101), 0),
    ("expectations/records", "page", (None, None, False, "default.shop.d5", 101), 1000),
    ("expectations/records", "about", ("dataset", "default.d7", 10), 1),
    ("expectations/records", "some", (["default.shop.d1", "default.shop.d2"],), 20),
    ("expectations/records", "misses", ("default.shop.d1", 100), 10),
    ("catalog/app_expectations", "foreign_subjects", ("default", "finance"), MANY),
    ("server/gauges", "missing", (200,), 0),
    ("server/gauges", "overdue", (NOW,), 10),
    ("webhooks/notices", "next", (0, 10**9, 100), 110),
    ("webhooks/notices", "waiting", (NOW, 100, "webhook.mail"), 300),
    ("webhooks/notices", "note", (["default.app7", "default.app8"], [1, 2]), 10),
    ("webhooks/notices", "lock", ("default.app7.x",), 1),
    ("webhooks/notices", "recipient", ("default.app7.x",), 1),
    ("webhooks/notices", "lines", (0, 10**9, "default.app0", 10_000), 300),
]


async def fill(world: ExpectationWorld, *, with_history: bool = True) -> None:
    app = App("shop")
    app.expect("flights", by="08:00")
    await world.deploy(app)
    await world.pool.execute(_COPIES, MANY)
    for part in (_EVIDENCE, _KEYS, _MISSES) if with_history else ():
        await world.pool.execute(part, MANY, NOW, timeout=120)
    if with_history:
        await world.pool.execute(_HISTORY, timeout=120)
    await world.pool.execute("VACUUM ANALYZE expectations, evidence, evidence_keys, expectation_misses")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def seen(plan: dict[str, Any]) -> int:
    """Rows that were read from tables, also in vain."""
    scans = [each for each in nodes(plan) if "Relation Name" in each]
    return sum(each["Actual Loops"] * (each["Actual Rows"] + each.get("Rows Removed by Filter", 0)) for each in scans)


@pytest.mark.long
async def test_what_is_repeated_reads_little(world: ExpectationWorld) -> None:
    await fill(world)
    found: list[str] = []
    for file, name, arguments, most in REPEATED:
        async with world.pool.acquire() as connection:
            changing = connection.transaction()
            await changing.start()
            answer = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {queries(file)[name]}", *arguments)
            await changing.rollback()
        plan = json.loads(answer)[0]["Plan"]
        scanned = {
            each["Relation Name"]
            for each in nodes(plan)
            if each["Node Type"] == "Seq Scan" and each["Actual Rows"] > 1000
        }
        if scanned or seen(plan) > most:
            found.append(f"{file} {name}: reads {seen(plan)} rows, scans {scanned or 'nothing'}")
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_hundred_thousand_that_are_due_at_once_are_soon_judged(world: ExpectationWorld) -> None:
    await fill(world, with_history=False)
    world.clock.set(NOW + 20 * HOUR + 2 * SECOND)
    await world.intake.copy_once(timeout=0)
    await world.completions.run_once()

    began = time.perf_counter()
    assert await world.watch().run_once() == NOW + 44 * HOUR
    judged_s = time.perf_counter() - began
    began = time.perf_counter()
    await world.look()
    idle_s = time.perf_counter() - began

    assert await world.pool.fetchval("SELECT count(*) FROM expectation_misses WHERE announced") == MANY + 1
    sys.stdout.write(f"{MANY:,} misses in {judged_s:.1f} s; a turn without any {idle_s * 1000:.0f} ms\n")
    assert judged_s < 240
    assert idle_s < 2

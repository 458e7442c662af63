"""Rows damaged by hand in PostgreSQL, one column at a time: rows of the case's own schedule only."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import asyncpg

from tests.hostile.case import Made, Site
from tests.hostile.definition_cases import view_schedule
from tests.hostile.documents import Json, app, bundle, go, programs
from tests.hostile.extremes import worsened, written

#: Table → the condition by which a row belongs to schedule $1 (and `$1.%`), and its columns by kind.
_COLUMNS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "jobs": (
        "schedule = $1",
        {
            "ready": "jsonb",
            "waiting": "jsonb",
            "reason": "text",
            "satisfied_at": "time",
            "created_at": "time",
            "next_check_at": "time",
            "checked_at": "time",
            "generation": "number",
            "sequence": "number",
            "program": "text",
            "ended_at": "time",
        },
    ),
    "schedules": (
        "id = $1",
        {
            "definition": "jsonb",
            "generation": "number",
            "program": "text",
            "enabled": "truth",
            "created_at": "time",
            "updated_at": "time",
            "pause": "jsonb",
        },
    ),
    "programs": ("id LIKE 'default.' || split_part($1, '.', 2) || '.%'", {"definition": "jsonb", "created_at": "time"}),
    "runs": (
        "job LIKE $1 || '.%'",
        {
            "executable": "jsonb",
            "arguments": "jsonb",
            "reason": "text",
            "created_at": "time",
            "started_at": "time",
            "spawns": "number",
            "spawn_at": "time",
            "runner": "text",
            "heartbeat_at": "time",
            "stop_requested": "text",
            "log_path": "text",
            "attempt": "number",
            "exit_code": "number",
        },
    ),
    "timers": ("schedule = $1", {"leaf": "text", "generation": "number", "due_at": "time"}),
    "wakes": ("schedule = $1", {"cell": "bytes", "generation": "number", "at": "time", "due_at": "time"}),
    "trigger_progress": ("schedule = $1", {"progress": "jsonb", "generation": "number", "sequence": "number"}),
    "open_keys": ("schedule = $1", {"state": "jsonb", "generation": "number", "key": "text"}),
    "meters": (
        "scope LIKE '%' || split_part($1, '.', 2) || '%'",
        {"remaining": "real", "at": "time", "full_at": "time", "per": "interval", "burst": "number"},
    ),
    "lines": ("job LIKE $1 || '.%'", {"turn_at": "time", "sequence": "number", "pool": "text"}),
    "outbox": ("", {"value": "bytes", "topic": "text", "key": "text"}),
}

_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "jsonb": (
        "'null'",
        "'[]'",
        "'{}'",
        "'1e300'",
        "'\"garbage\"'",
        "jsonb_build_object('a', repeat('x', 1000000))",
        "repeat('[', 5000)::text || repeat(']', 5000)",
    ),
    "text": ("''", "'garbage'", "repeat('x', 1000000)", "E'\\x01\\x1b'", "'a.b.c.d.e'", "'☃'", "NULL"),
    "time": (
        "'infinity'",
        "'-infinity'",
        "'294276-12-31 23:59:59Z'",
        "'4713-01-01 00:00:00 BC'",
        "'0001-01-01 00:00:00Z'",
        "'9999-12-31 23:59:59.999999Z'",
        "'epoch'",
        "NULL",
    ),
    "number": ("0", "-1", "2147483647", "9223372036854775807", "-9223372036854775808", "NULL"),
    "real": ("'NaN'", "'Infinity'", "'-Infinity'", "1e308", "-1e308"),
    "interval": ("'178000000 years'", "'0'", "'-1 day'", "'1 mon'"),
    "truth": ("false", "true", "NULL"),
    "bytes": ("'\\xff00fe'", "''", "'null'", "NULL", "repeat('[', 100000)::bytea"),
}

_WITHIN_S: Final = 1.5


def damaged(name: str, rng: random.Random) -> Made:
    """A column of one table's rows of the case is overwritten while its jobs wait or run."""
    table = rng.choice(["jobs"] * 3 + ["schedules"] * 2 + ["runs"] * 2 + list(_COLUMNS))
    where, columns = _COLUMNS[table]
    column = rng.choice(list(columns))
    kind = columns[column]
    value = rng.choice(_VALUES[kind])
    schedule, said = _schedule(name, rng, table)
    ref = f"default.{name}.s"
    deep = rng.randrange(2**32) if kind == "jsonb" and rng.random() < 0.5 else None

    async def act(site: Site) -> None:
        kind_of = programs(name, f"{site.far}/hang" if table == "runs" else site.far)
        program = rng.choice(kind_of[:2]) if table == "runs" else kind_of[0]
        if table == "runs" and program["type"] == "http":
            program = {**program, "url": f"{site.far}/hang"}
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, schedule, program))
        await site.ask("POST", "/v1/events", bundle(name), params={"check": "none"})
        if table == "outbox":
            await _slip(site, name, column, value)
        else:
            await _overwrite(site, table, where, column, value, ref, deep)
        await site.ask("POST", "/v1/events", [{**each, "id": f"{each['id']}2"} for each in bundle(name)])
        await view_schedule(site, ref)
        await site.ask("GET", f"/v1/schedules/{ref}/next")
        for order in ("force", "release", "cancel"):
            await site.ask("POST", f"/v1/jobs/{ref}.1.1/{order}")
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {**schedule, "description": "again"}, program))
        await site.ask("GET", "/v1/runs", params={"program": f"default.{name}.p"})

    what = f"{column} = {'one field of it an extreme' if deep is not None else value}"
    return f"{table}: {what}, of a schedule with {said}", act


def _schedule(name: str, rng: random.Random, table: str) -> tuple[Json, str]:
    """A schedule that has rows in that table."""
    match table:
        case "timers":
            return {"trigger": {"type": "EVERY", "interval": "1s"}}, "a clock"
        case "wakes":
            return {"trigger": {"type": "QUIET", "trigger": go(name), "duration": "2s"}}, "a quiet time"
        case "open_keys" | "trigger_progress":
            both = [{"type": "PARTITION", "dataset": f"{name}{each}", "numPartitions": 1} for each in ("d", "never")]
            return {"trigger": {"type": "PER", "trigger": {"type": "AND", "triggers": both}, "by": ["date"]}}, "keys"
        case "meters":
            return {"constraints": [{"type": "RATE", "maxRuns": 1, "per": "1s"}], "overlap": "queue"}, "a rate"
        case "lines":
            held = [{"type": "POOL", "pool": f"{name}p", "size": 1}, {"type": "DELAY", "delay": "1s"}]
            return {"constraints": held}, "a pool"
        case "runs":
            return {"retry": {"attempts": 2, "delay": "1s"}, "maxDuration": "3s"}, "a run"
        case _:
            wanted = rng.choice(
                (
                    [{"type": "DELAY", "delay": "2s"}],
                    [{"type": "DELAY", "delay": "1h"}],
                    [{"type": "CONCURRENCY", "maxConcurrency": 1}, {"type": "DELAY", "delay": "1s"}],
                    [],
                )
            )
            more: Json = rng.choice(({}, {"overlap": "queue"}, {"deadlines": [{"type": "start-by", "within": "1s"}]}))
            return {"constraints": wanted, **more}, f"{[each['type'] for each in wanted]} {more}"


async def _overwrite(  # noqa: PLR0917
    site: Site, table: str, where: str, column: str, value: str, ref: str, deep: int | None
) -> None:
    """As soon as there is a row; what the database's own checks refuse is no matter."""
    cast = {"jsonb": "::jsonb", "time": "::timestamptz"}.get(_COLUMNS[table][1][column], "")
    for _ in range(int(_WITHIN_S / 0.1)):
        try:
            if deep is not None:
                before = await site.pool.fetchval(f"SELECT {column} FROM {table} WHERE {where} LIMIT 1", ref)
                if before is None:
                    await asyncio.sleep(0.1)
                    continue
                value = f"'{_worse(before, deep)}'"
            done = await site.pool.execute(f"UPDATE {table} SET {column} = ({value}){cast} WHERE {where}", ref)
        except asyncpg.PostgresError:
            return
        if not done.endswith(" 0"):
            return
        await asyncio.sleep(0.1)


async def _slip(site: Site, name: str, column: str, value: str) -> None:
    """A record in the outbox that no writer of ours wrote."""
    good = {"topic": "'signals'", "key": f"'schedule:default.{name}.s'", "value": "'{}'::bytea"}
    try:
        row = {**good, column: value}
        await site.pool.execute(f"INSERT INTO outbox (topic, key, value) VALUES ({', '.join(row.values())})")
        await site.pool.execute("SELECT pg_notify('outbox', '')")
    except asyncpg.PostgresError:
        return


def _worse(before: Any, deep: int) -> str:
    import json

    document = json.loads(before) if isinstance(before, str) else before
    try:
        wrong, _ = worsened(document, random.Random(deep))
    except IndexError:  # it has no places
        wrong = []
    return written(wrong).decode("utf-8", "replace").replace("'", "''")

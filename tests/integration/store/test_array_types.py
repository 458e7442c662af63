"""Arrays of PostgreSQL's own types: they have the numbers that we say, and no connection searches the catalog."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import asyncpg
import pytest
from streamsched_brokers.postgres.connection import open_pool as open_log_pool

from streamsched.process.array_types import ARRAYS
from streamsched.store.connections import open_pool

pytestmark = pytest.mark.postgres

VALUES = {
    "bool": [True, None],
    "bytea": [b"\0", b""],
    "int8": [2**63 - 1, -1],
    "int2": [2**15 - 1, -1],
    "int4": [2**31 - 1, -1],
    "text": ["é,{}", "", None],
    "oid": [2**32 - 1],
    "float8": [1.5, float("inf")],
    "date": [date(2026, 1, 1)],
    "timestamptz": [datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)],
    "interval": [timedelta(days=1, microseconds=1)],
    "numeric": [Decimal("1e-40")],
    "uuid": [UUID(int=1)],
    "jsonb": [{"a": [1, "é"]}, None],
}


async def test_the_numbers_are_those_of_the_server(pool: asyncpg.Pool) -> None:
    rows = await pool.fetch(
        "SELECT oid::int, typname::text, typarray::int FROM pg_type WHERE typname = ANY ($1)",
        [name for _, name in ARRAYS],
    )
    assert {(row["oid"], row["typname"]): row["typarray"] for row in rows} == dict(ARRAYS)


async def test_arrays_come_back_and_nothing_is_searched(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def search(*_: object) -> None:
        raise AssertionError("the catalog is searched for a type")

    assert hasattr(asyncpg.Connection, "_introspect_types")
    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", search)
    pool, log_pool = await open_pool(database), await open_log_pool(database, size=1)
    try:
        for name, values in VALUES.items():
            assert await pool.fetchval(f"SELECT $1::{name}[]", values) == values
        assert await pool.fetchval("SELECT array[(1, 'a'), (2, NULL)]") == [(1, "a"), (2, None)]
        assert await log_pool.fetchval("SELECT $1::bytea[] || array['\\x01'::bytea]", [b"\0"]) == [b"\0", b"\1"]
    finally:
        await pool.close()
        await log_pool.close()
    assert VALUES.keys() | {"record"} == {name for _, name in ARRAYS}

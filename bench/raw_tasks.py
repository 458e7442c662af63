"""A queue of tasks without lanes, retries, history and takeover: a loop with SKIP LOCKED, for comparison in
`bench.tasks`.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any, Final

import asyncpg
import httpx

from streamsched.domain.addresses import EVERYWHERE
from streamsched.process.http_client import HttpClient, PreparedRequest

_AT_ONCE: Final = 500
_TAKE: Final = """
SELECT id, payload FROM raw_tasks WHERE due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
"""
_TIMEOUT: Final = timedelta(seconds=30)


async def raw(url: str, count: int, data: bytes, target: str | None, *, connections: int = 2) -> float:
    """Rows per second of so many connections in one process, each of which takes 500 rows at a time, delivers them to
    the target at the same time, and deletes them. `target`: None: they are deleted at once.
    """
    pool = await asyncpg.create_pool(url, min_size=connections, max_size=connections)
    await pool.execute("DROP TABLE IF EXISTS raw_tasks")
    await pool.execute("CREATE TABLE raw_tasks (id bigint PRIMARY KEY, due_at timestamptz NOT NULL, payload bytea)")
    await pool.execute("CREATE INDEX ON raw_tasks (due_at)")
    await pool.execute(
        "INSERT INTO raw_tasks SELECT n, now() - n * interval '1 ms', $2 FROM generate_series(1, $1::bigint) n",
        *(count, data),
    )
    await pool.execute("VACUUM ANALYZE raw_tasks")
    client = HttpClient(EVERYWHERE)
    to = None if target is None else PreparedRequest.from_request(httpx.Request("POST", target))
    began = time.perf_counter()
    await asyncio.gather(*(_loop(pool, client, to) for _ in range(connections)))
    per_s = count / (time.perf_counter() - began)
    await client.close()
    await pool.close()
    return per_s


async def _loop(pool: Any, client: HttpClient, to: PreparedRequest | None) -> None:
    async with pool.acquire() as connection:
        while True:
            async with connection.transaction():
                rows = await connection.fetch(_TAKE, _AT_ONCE)
                if not rows:
                    return
                if to is not None:
                    calls = (_deliver(client, to, row) for row in rows)
                    if not all(await asyncio.gather(*calls)):
                        raise SystemExit("the server does not answer")
                await connection.execute(
                    "DELETE FROM raw_tasks WHERE id = ANY($1::bigint[])", [row["id"] for row in rows]
                )


async def _deliver(client: HttpClient, to: PreparedRequest, row: Any) -> bool:
    content = bytes(row["payload"])
    own = (("Idempotency-Key", str(row["id"])), ("Content-Type", "application/json"))
    headers = [("Host", to.url.authority), *own, ("Content-Length", str(len(content)))]
    return (await client.send(PreparedRequest(to.method, to.url, headers, content), _TIMEOUT)).is_accepted

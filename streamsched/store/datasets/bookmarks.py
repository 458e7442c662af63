"""`ports.datasets.bookmarks.BookmarkStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.ports.datasets.bookmarks import Bookmark
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries

_SQL: Final = queries("datasets/bookmarks")


class PostgresBookmarkStore:
    """See `ports.datasets.bookmarks.BookmarkStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def all(self, *, after: str, limit: int) -> Sequence[Bookmark]:
        with translated():
            return [_bookmark(row) for row in await self._pool.fetch(_SQL["all"], after, limit)]

    async def get(self, name: str) -> Bookmark:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await _settle(connection, name)
                row = await connection.fetchrow(_SQL["get"], name)
        if row is None:
            raise NotFoundError("bookmark", name)
        return _bookmark(row)

    async def pending(self, name: str, run: str) -> str | None:
        with translated():
            return await self._pool.fetchval(_SQL["pending"], name, run)

    async def set_by_run(self, name: str, value: str, *, revision: int, run: str) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(_SQL["known_run"], run):
                    raise NotFoundError("run", run)
                await _settle(connection, name)
                row = await connection.fetchrow(_SQL["get"], name)
                if (0 if row is None else row["revision"]) != revision:
                    raise ConflictError(f"bookmark '{name}' does not have revision {revision} any more: read it again")
                await connection.execute(_SQL["move_later"], name, run, value, revision)

    async def set(self, name: str, value: str, *, revision: int, now: datetime) -> Bookmark:
        with translated():
            if revision == 0:
                row = await self._pool.fetchrow(_SQL["create"], name, value, now)
            else:
                row = await self._pool.fetchrow(_SQL["set"], name, value, now, revision)
            row = row or await self._repeated(name, value, revision)
        if row is None:
            raise ConflictError(f"bookmark '{name}' does not have revision {revision} any more: read it again")
        return _bookmark(row)

    async def cue(self, names: Sequence[str]) -> Sequence[str]:
        with translated():
            return [row["name"] for row in await self._pool.fetch(_SQL["cue"], names)]

    async def cues(self, name: str) -> int:
        with translated():
            return await self._pool.fetchval(_SQL["cues"], name) or 0

    async def delete(self, name: str) -> bool:
        with translated():
            return await self._pool.execute(_SQL["delete"], name) != "DELETE 0"

    async def _repeated(self, name: str, value: str, revision: int) -> Any:
        """The row, when it is what the same call made before."""
        row = await self._pool.fetchrow(_SQL["get"], name)
        return row if row is not None and (row["value"], row["revision"]) == (value, revision + 1) else None


async def _settle(connection: Connection, name: str) -> None:
    """Sets the bookmark to what runs have set that completed since, in the order of their ends; forgets what runs would
    have set that ended otherwise, or that had read an older revision. In the caller's transaction.
    """
    moves = {row["run"]: row for row in await connection.fetch(_SQL["lock_moves"], name)}
    if not moves:
        return
    ended = await connection.fetch(_SQL["ended"], list(moves))
    for run in ended:
        move = moves[run["id"]]
        if run["state"] != "COMPLETED":
            continue
        if move["revision"] == 0:
            await connection.fetchrow(_SQL["create"], name, move["value"], run["ended_at"])
        else:
            await connection.fetchrow(_SQL["set"], name, move["value"], run["ended_at"], move["revision"])
    await connection.execute(_SQL["forget_moves"], name, [run["id"] for run in ended])


def _bookmark(row: Any) -> Bookmark:
    return Bookmark(row["name"], row["value"], row["revision"], row["changed_at"])

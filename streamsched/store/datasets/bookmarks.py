"""Bookmarks (`domain.datasets.bookmark`), and what runs would set them to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.datasets.bookmark import Bookmark
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries


class _Move(NamedTuple):
    run: str
    value: str
    revision: int


class _EndedRun(NamedTuple):
    id: str
    state: str
    ended_at: datetime


_SQL: Final = queries("datasets/bookmarks")
_LIST: Final = Select(_SQL["list"], Bookmark)
_GET: Final = Select(_SQL["get"], Bookmark)
_CREATE: Final = Select(_SQL["create"], Bookmark)
_SET: Final = Select(_SQL["set"], Bookmark)
_LOCK_MOVES: Final = Select(_SQL["lock_moves"], _Move)
_ENDED: Final = Select(_SQL["ended"], _EndedRun)


class BookmarkStore:
    """Every method raises `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_names(self, *, after: str, limit: int) -> Sequence[Bookmark]:
        """Bookmarks whose names follow `after`, by name; without their values, which may be large."""
        with translate_errors():
            return await _LIST.fetch(self._pool, after, limit)

    async def get(self, name: str) -> Bookmark:
        """The bookmark with its value and revision.

        Raises:
            NotFoundError: there is none of that name.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await _settle(connection, name)
                found = await _GET.fetchrow(connection, name)
        if found is None:
            raise NotFoundError("bookmark", name)
        return found

    async def pending_value(self, name: str, run: str) -> str | None:
        """The value that the run sets by its success; None when it sets none."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["pending"], name, run)

    async def set_by_run(self, name: str, value: str, *, revision: int, run: str) -> None:
        """Sets the bookmark when the run completes, if its revision is still this one then. A later call by the same
        run replaces the value.

        Raises:
            NotFoundError: there is no such run.
            ConflictError: the revision is another one already.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if not await fetch_value(connection, _SQL["known_run"], bool, run):
                    raise NotFoundError("run", run)
                await _settle(connection, name)
                known = await _GET.fetchrow(connection, name)
                if (0 if known is None else known.revision) != revision:
                    raise _revision_conflict(name, revision)
                await connection.execute(_SQL["move_later"], name, run, value, revision)

    async def set(self, name: str, value: str, *, revision: int, now: datetime) -> Bookmark:
        """Sets the bookmark if its revision is still this one; 0: if there is none. To repeat a call whose answer was
        lost changes nothing.

        Raises:
            ConflictError: its revision is another one, and its value differs.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                made = await _set(connection, name, value, revision, now) or await _GET.fetchrow(connection, name)
        if made is None or (made.value, made.revision) != (value, revision + 1):
            raise _revision_conflict(name, revision)
        return made

    async def cue(self, names: Sequence[str]) -> Sequence[str]:
        """Gives a cue to the readers of these bookmarks: there may be something new. Returns the names of those that
        exist.
        """
        with translate_errors():
            return [name for (name,) in await self._pool.fetch(_SQL["cue"], names)]

    async def count_cues(self, name: str) -> int:
        """The number of cues given to the readers of a bookmark; 0 when there is none of that name."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["cues"], name) or 0

    async def delete(self, name: str) -> bool:
        """Deletes it; returns whether it existed."""
        with translate_errors():
            return await self._pool.execute(_SQL["delete"], name) != "DELETE 0"


async def _set(connection: Connection, name: str, value: str, revision: int, now: datetime) -> Bookmark | None:
    """None: its revision is another one."""
    if revision == 0:
        return await _CREATE.fetchrow(connection, name, value, now)
    return await _SET.fetchrow(connection, name, value, now, revision)


async def _settle(connection: Connection, name: str) -> None:
    """Sets the bookmark to what runs have set that completed since, in the order of their ends; forgets what runs would
    have set that ended otherwise, or that had read an older revision. In the caller's transaction.
    """
    moves = {move.run: move for move in await _LOCK_MOVES.fetch(connection, name)}
    if not moves:
        return
    ended = await _ENDED.fetch(connection, list(moves))
    for run in ended:
        if run.state == "COMPLETED":
            await _set(connection, name, moves[run.id].value, moves[run.id].revision, run.ended_at)
    await connection.execute(_SQL["forget_moves"], name, [run.id for run in ended])


def _revision_conflict(name: str, revision: int) -> ConflictError:
    return ConflictError(f"bookmark '{name}' does not have revision {revision} any more: read it again")

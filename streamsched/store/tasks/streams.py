"""Where workers reach the processes that deliver tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("tasks/streams")


class _Stream(NamedTuple):
    owner: str
    url: str


_LIST: Final = Select(_SQL["list"], _Stream)


class StreamAddresses:
    """Where workers reach the processes that deliver tasks. All methods raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def announce(self, owner: str, url: str) -> None:
        """Shows the address of an owner for 15 seconds. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["announce"], owner, url)

    async def withdraw(self, owner: str) -> None:
        """Removes the address of an owner. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["withdraw"], owner)

    async def all(self) -> Mapping[str, str]:
        """URL by owner, of those that were announced in the last 15 seconds."""
        with translate_errors():
            return dict(await _LIST.fetch(self._pool))

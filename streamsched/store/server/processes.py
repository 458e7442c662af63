"""The processes of an installation, as each says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("server/processes")


class ProcessRow(NamedTuple):
    """What a process says of itself.

    Attributes:
        id: its unique name.
        release: its version.
        tzdata: the release of IANA's data by which it computes ticks.
        own_ahead_s: how many seconds its machine's clock is ahead of the time it goes by.
    """

    id: str
    role: str
    host: str
    pid: int
    release: str
    tzdata: str
    own_ahead_s: float


_LIVE: Final = Select(_SQL["live"], ProcessRow)


class Processes:
    """Every method raises UnavailableError when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(self, row: ProcessRow) -> None:
        """Stores what a process says of itself."""
        with translate_errors():
            await self._pool.execute(_SQL["put"], *row)

    async def list_live(self) -> Sequence[ProcessRow]:
        """Those that have said something lately, by id."""
        with translate_errors():
            return await _LIVE.fetch(self._pool)


def machines_ahead(processes: Sequence[ProcessRow]) -> Mapping[str, float]:
    """By host, how many seconds its clock is ahead: the largest difference that a process of it says."""
    ahead: dict[str, float] = {}
    for each in processes:
        ahead[each.host] = max(each.own_ahead_s, ahead.get(each.host, each.own_ahead_s), key=abs)
    return ahead

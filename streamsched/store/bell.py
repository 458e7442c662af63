"""`ports.bell` by LISTEN and NOTIFY: one connection hears for every listener of a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.store.pool import translated, watch

log = structlog.get_logger()

_CONNECT_SECONDS: Final = 5


class PostgresRing:
    """A listener. Its event stays set between a ring and the next `wait`."""

    def __init__(self, bell: PostgresBell) -> None:
        self._bell = bell
        self._rung = asyncio.Event()

    def strike(self) -> None:
        self._rung.set()

    async def wait(self, timeout: float) -> bool:
        await self._bell.hear()
        try:
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class PostgresBell:
    """Connects on first use, and again whenever the connection was lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._rings: dict[str, set[PostgresRing]] = {}
        self._heard: set[str] = set()
        self._connection: Any = None
        self._connecting = asyncio.Lock()

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[PostgresRing]:
        ring = PostgresRing(self)
        self._rings.setdefault(channel, set()).add(ring)
        try:
            await self.hear()
            yield ring
        finally:
            self._rings[channel].discard(ring)

    async def hear(self) -> None:
        """Sees to it that every channel somebody listens to is heard; when that fails, listeners live by their
        timeouts until it succeeds.
        """
        if self._connection is not None and self._heard >= self._rings.keys():
            return
        async with self._connecting:
            try:
                with translated():
                    await self._connect()
            except UnavailableError as exc:
                log.warning("bell.silent", reason=str(exc))

    async def close(self) -> None:
        """Hangs up; listeners that still wait end by their timeouts."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.remove_termination_listener(self._lost)
            await connection.close()

    async def _connect(self) -> None:
        if self._connection is None:
            self._heard.clear()
            connection = await asyncpg.connect(self._dsn, timeout=_CONNECT_SECONDS)
            watch(connection)
            connection.add_termination_listener(self._lost)
            self._connection = connection
        for channel in self._rings.keys() - self._heard:
            await self._connection.add_listener(channel, self._rang)
            self._heard.add(channel)

    def _rang(self, _connection: object, _pid: int, channel: str, _payload: str) -> None:
        for ring in self._rings.get(channel, ()):
            ring.strike()

    def _lost(self, _connection: object) -> None:
        self._connection = None
        self._heard.clear()
        for rings in self._rings.values():  # something may have rung unheard
            for ring in rings:
                ring.strike()

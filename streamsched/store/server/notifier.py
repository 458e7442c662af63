"""Wake-ups between processes by LISTEN and NOTIFY: one connection for all subscriptions of a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.store.connections import connector, translate_errors, watch

log = structlog.get_logger()

_CONNECT_SECONDS: Final = 5


class PostgresSubscription:
    """`ports.notifier.NotifierSubscription`. Its event stays set from a notification until `wait` returns."""

    def __init__(self, notifier: PostgresNotifier) -> None:
        self._notifier = notifier
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Ends `wait`, or the next one."""
        self._notified.set()

    async def wait(self, timeout: float) -> bool:
        """Whether a notice came within `timeout` seconds; one that came since the last call counts."""
        await self._notifier.connect()
        try:
            async with asyncio.timeout(timeout):
                await self._notified.wait()
        except TimeoutError:
            return False
        self._notified.clear()
        return True


class PostgresNotifier:
    """`ports.notifier.Notifier` on PostgreSQL. Connects on first use, and again after the connection was lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connect = connector(dsn)
        self._subscriptions: dict[str, set[PostgresSubscription]] = {}
        self._channels: set[str] = set()
        self._connection: asyncpg.Connection | None = None
        self._connecting = asyncio.Lock()

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[PostgresSubscription]:
        """A subscription to the channel for the block. Notices that come before the first `wait` are not lost."""
        subscription = PostgresSubscription(self)
        self._subscriptions.setdefault(channel, set()).add(subscription)
        try:
            await self.connect()
            yield subscription
        finally:
            self._subscriptions[channel].discard(subscription)

    async def connect(self) -> None:
        """Listens to every subscribed channel. While that fails, subscriptions return by their timeouts only."""
        if self._connection is not None and self._channels >= self._subscriptions.keys():
            return
        async with self._connecting:
            try:
                with translate_errors():
                    await self._open()
            except UnavailableError as exc:
                log.warning("notifier.unavailable", reason=str(exc))

    async def close(self) -> None:
        """Closes the connection; subscriptions that still wait return by their timeouts."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.remove_termination_listener(self._forget_connection)
            await connection.close()

    async def _open(self) -> None:
        connection = self._connection
        if connection is None:
            self._channels.clear()
            connection = await self._connect(self._dsn, timeout=_CONNECT_SECONDS)
            watch(connection)
            connection.add_termination_listener(self._forget_connection)
            self._connection = connection
        for channel in self._subscriptions.keys() - self._channels:
            await connection.add_listener(channel, self._dispatch)
            self._channels.add(channel)

    def _dispatch(self, _connection: object, _pid: int, channel: str, _payload: str) -> None:
        for subscription in self._subscriptions.get(channel, ()):
            subscription.notify()

    def _forget_connection(self, _connection: object) -> None:
        self._connection = None
        self._channels.clear()
        for subscriptions in self._subscriptions.values():  # a notification may have been missed
            for subscription in subscriptions:
                subscription.notify()

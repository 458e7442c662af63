"""Wakes waiting readers: one connection listens for PostgreSQL's notifications of partitions that grew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import asyncpg
import structlog

from streamsched.process.cancellation import cancel
from streamsched_brokers.postgres.connection import CONNECT_SECONDS, connector

CHANNEL = "streamsched_log"

#: Seconds before reconnecting after the connection was lost, by the number of failures.
BACKOFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)

log = structlog.get_logger()


class Wakeups:
    """Sets the event of every reader of a partition that grew.

    A notification is a hint: one may be lost with the connection, so readers also poll, and all of them are woken after
    a reconnect.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connect = connector(url)
        self._waiting: dict[tuple[int, int], set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, partitions: Iterable[tuple[int, int]], event: asyncio.Event) -> None:
        """Sets `event` whenever one of the partitions (topic id, partition) grows, until `unsubscribe`."""
        for partition in partitions:
            self._waiting.setdefault(partition, set()).add(event)
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="streamsched-log-wakeups")

    def unsubscribe(self, partitions: Iterable[tuple[int, int]], event: asyncio.Event) -> None:
        """Undoes `subscribe`."""
        for partition in partitions:
            waiting = self._waiting.get(partition, set())
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(partition, None)

    async def close(self) -> None:
        if self._task is not None:
            await cancel(self._task)
            self._task = None

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                connection = await self._connect(self._url, timeout=CONNECT_SECONDS)
                try:
                    lost = asyncio.Event()
                    connection.add_termination_listener(lambda _, lost=lost: lost.set())
                    await connection.add_listener(CHANNEL, self._notify)
                    failures = 0
                    self._wake_all()
                    await lost.wait()
                finally:
                    connection.terminate()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as exc:
                log.warning("log.listen_failed", error=str(exc) or type(exc).__name__, failures=failures)
            await asyncio.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
            failures += 1

    def _notify(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for word in str(payload).split():
            topic_id, _, partition = word.partition(".")
            for event in self._waiting.get((int(topic_id), int(partition)), ()):
                event.set()

    def _wake_all(self) -> None:
        for waiting in self._waiting.values():
            for event in waiting:
                event.set()

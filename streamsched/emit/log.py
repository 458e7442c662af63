"""Appends events to the log directly, for producers that can reach the broker.

Brokers need a running event loop, some also between calls; so a transport has its own loop on a thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Final, TypeVar

from streamsched.codec import event as codec
from streamsched.domain.errors import StreamschedError, TooLargeError, UnavailableError
from streamsched.domain.events.event import Event
from streamsched.domain.signals.home import home
from streamsched.emit.delivery import Accepted, Answer, EncodedEvent, TooLarge, Unreachable
from streamsched.log.topics import public_topic
from streamsched.ports.broker import Broker, Outgoing

log = logging.getLogger("streamsched.emit")

_T = TypeVar("_T")
_TIMEOUT: Final = timedelta(seconds=10)
#: Seconds that tasks may take to end when the transport is closed.
_CLOSE_SECONDS: Final = 2.0


class LogTransport:
    """A broker, opened at the first `send`. For one thread at a time."""

    def __init__(self, open_broker: Callable[[], Awaitable[Broker]], *, timeout: timedelta = _TIMEOUT) -> None:
        self._open_broker = open_broker
        self._timeout = timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broker: Broker | None = None
        self._partitions: dict[str, int] = {}

    def encode(self, event: Event) -> bytes:
        return codec.encode(event)

    def send(self, encoded: Sequence[EncodedEvent]) -> Answer:
        """One append.

        Raises:
            ConfigurationError: no driver for the URL.
            NotFoundError: the topic does not exist.
        """
        started = monotonic()
        try:
            self._run(self._append(encoded))
        except TooLargeError:
            return TooLarge(timedelta(seconds=monotonic() - started))
        except UnavailableError as exc:
            return Unreachable(timedelta(seconds=monotonic() - started), str(exc))
        except TimeoutError:
            return Unreachable(timedelta(seconds=monotonic() - started), "the log did not answer in time")
        return Accepted(timedelta(seconds=monotonic() - started))

    def close(self) -> None:
        """Closes the broker. Does not raise if the log is unreachable, because all results have been returned."""
        broker, self._broker = self._broker, None
        try:
            if broker is not None:
                self._run(broker.close())
        except (OSError, StreamschedError) as exc:
            log.warning("log.closed_late why=%s", str(exc) or "it did not answer in time")
        finally:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    async def _append(self, encoded: Sequence[EncodedEvent]) -> None:
        if self._broker is None:
            self._broker = await self._open_broker()
        await self._broker.append([await self._to_outgoing(self._broker, each) for each in encoded])

    async def _to_outgoing(self, broker: Broker, each: EncodedEvent) -> Outgoing:
        topic, key = public_topic(each.event.fact), each.event.key
        if topic not in self._partitions:
            self._partitions[topic] = await broker.partitions(topic)
        return Outgoing(topic, home(key, self._partitions[topic]), key.encode(), each.payload)

    def _run(self, call: Coroutine[Any, Any, _T]) -> _T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(self._loop,), name="streamsched-log", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(self._in_time(call), self._loop).result()

    async def _in_time(self, call: Coroutine[Any, Any, _T]) -> _T:
        async with asyncio.timeout(self._timeout.total_seconds()):
            return await call


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_SECONDS))
    loop.close()

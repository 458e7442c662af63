"""Events straight to the log, for producers that may reach the broker: no server in between.

Brokers live in an event loop, and some work there between our calls; so a link has a loop of its own, on a thread.
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
from streamsched.domain.event import Event
from streamsched.domain.home import home
from streamsched.emit.delivery import Accepted, Answer, Away, Parcel, TooLarge
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.topics import public_topic

log = logging.getLogger("streamsched.emit")

_T = TypeVar("_T")
_TIMEOUT: Final = timedelta(seconds=10)
#: What is under way when a link is closed may take that long to end.
_GOODBYE_SECONDS: Final = 2.0


class LogLink:
    """A broker, opened at the first `send`. For one thread at a time."""

    def __init__(self, opened: Callable[[], Awaitable[Broker]], *, timeout: timedelta = _TIMEOUT) -> None:
        self._opened = opened
        self._timeout = timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broker: Broker | None = None
        self._partitions: dict[str, int] = {}

    def encode(self, event: Event) -> bytes:
        return codec.encode(event)

    def send(self, parcels: Sequence[Parcel]) -> Answer:
        """One append.

        Raises:
            ConfigurationError: no driver for the URL.
            NotFoundError: the installation has no such topic.
        """
        started = monotonic()
        try:
            self._run(self._append(parcels))
        except TooLargeError:
            return TooLarge(timedelta(seconds=monotonic() - started))
        except UnavailableError as exc:
            return Away(timedelta(seconds=monotonic() - started), str(exc))
        except TimeoutError:
            return Away(timedelta(seconds=monotonic() - started), "the log did not answer in time")
        return Accepted(timedelta(seconds=monotonic() - started))

    def close(self) -> None:
        """Raises nothing on account of a log that is away: what became of the events has been said by then."""
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

    async def _append(self, parcels: Sequence[Parcel]) -> None:
        if self._broker is None:
            self._broker = await self._opened()
        await self._broker.append([await self._addressed(self._broker, parcel) for parcel in parcels])

    async def _addressed(self, broker: Broker, parcel: Parcel) -> Outgoing:
        topic, key = public_topic(parcel.event.fact), parcel.event.key
        if topic not in self._partitions:
            self._partitions[topic] = await broker.partitions(topic)
        return Outgoing(topic, home(key, self._partitions[topic]), key.encode(), parcel.payload)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_live, args=(self._loop,), name="streamsched-log", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(self._in_time(work), self._loop).result()

    async def _in_time(self, work: Coroutine[Any, Any, _T]) -> _T:
        async with asyncio.timeout(self._timeout.total_seconds()):
            return await work


def _live(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_GOODBYE_SECONDS))
    loop.close()

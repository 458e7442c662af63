"""Schedules tasks from a program, as PagerDuty's client does.

    from streamsched.tasks.client import Scheduler, Task

    with Scheduler("kafka://127.0.0.1:9092") as scheduler:
        stored = scheduler.schedule_task(Task("incident-1", at, "notify-1", {"user": "7"}))
        stored.result(timeout=10)

Tasks go to a topic of a log (`kafka://…`, `postgresql://…`), which a launcher reads, or to an API (`http://…`). A call
returns at once; tasks that wait are sent together, in the order of the calls. In asyncio, `await
asyncio.wrap_future(scheduler.schedule_task(task))`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

import httpx
import orjson

from streamsched.codec.problem import COME_BACK
from streamsched.dialects.pagerduty.codec.partitioner import partition_of_id
from streamsched.dialects.pagerduty.codec.task import GRACE, SCHEDULER, TOO_LATE, Task, encode, is_too_late, to_json
from streamsched.domain.backoff import double_pause
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidError,
    NotFoundError,
    StreamschedError,
    TooLargeError,
    UnavailableError,
)
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.emit.destination import NO_DESTINATION, find_destination, token_for
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.clock import Clock, SystemClock

__all__ = ["Scheduler", "Task"]

#: Most tasks that wait; a further call waits for room.
_MOST_WAITING: Final = 10_000
_ROOM_S: Final = 5.0
_AT_ONCE: Final = 500
#: Tasks are sent together as far as their JSON has so many bytes.
_MOST_BYTES: Final = 4 * 1024 * 1024
_TIMEOUT_S: Final = 10.0
_FIRST_PAUSE: Final = timedelta(milliseconds=100)
_LONGEST_PAUSE: Final = timedelta(seconds=2)
_CLOCK: Final = SystemClock()
_DEADLINE: Final = timedelta(seconds=30)


class Scheduler:
    """Schedules tasks. For any number of threads. Use it in a `with` block, or `close` it.

    Args:
        url: of a log or an API; None: `STREAMSCHED_URL`, or the `streamsched dev` of this folder.
        topic: of the log, or the queue of the API.
        grace: how long ago a task may be due.
        deadline: how long a task is sent again while the log or the API is unavailable.

    Raises:
        ConfigurationError: there is no URL.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        topic: str = SCHEDULER,
        grace: timedelta = GRACE,
        deadline: timedelta = _DEADLINE,
        clock: Clock = _CLOCK,
    ) -> None:
        if url is None:
            found = find_destination()
            if found is None:
                raise ConfigurationError(f"no URL was given, and {NO_DESTINATION}")
            url = found.url
        http = urlsplit(url).scheme in ("http", "https")
        self._destination: _Destination = _Api(url, topic) if http else _Topic(url, topic)
        self._grace = grace
        self._deadline_s = deadline.total_seconds()
        self._clock = clock
        self._room = threading.Semaphore(_MOST_WAITING)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Task, bytes, Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._arrived = asyncio.Event()
        self._closed = False

    def schedule_task(self, task: Task) -> Future[None]:
        """Schedules a task; the future completes when the log has acknowledged it or the API has stored it. The same
        key again replaces the task until it is started, and does nothing for 14 days after it ended.

        The future fails with:
            InvalidError: the task was due longer ago than the grace; at once.
            TooLargeError: its record is larger than the log accepts.
            NotFoundError: there is no such topic or queue.
            UnavailableError: the log or the API was unavailable for the deadline; the task may have been stored. Or too
                many tasks wait.
            ConflictError: the scheduler is closed.
        """
        scheduled: Future[None] = Future()
        if is_too_late(task, self._clock.now(), self._grace):
            scheduled.set_exception(InvalidError("$.scheduledTime", TOO_LATE))
        elif not self._room.acquire(timeout=_ROOM_S):
            scheduled.set_exception(UnavailableError(f"{_MOST_WAITING} tasks wait to be sent"))
        else:
            scheduled.add_done_callback(lambda _: self._room.release())
            with self._lock:
                if self._closed:
                    scheduled.set_exception(ConflictError("the scheduler is closed"))
                    return scheduled
                self._waiting.append((task, self._destination.encode(task), scheduled))
                self._start().call_soon_threadsafe(self._arrived.set)
        return scheduled

    def close(self) -> None:
        """Sends what waits, then closes. Idempotent."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
            if self._loop is not None and thread is not None:
                self._loop.call_soon_threadsafe(self._arrived.set)
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="streamsched-tasks", daemon=True)
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._send_all())
        finally:
            loop.close()

    async def _send_all(self) -> None:
        try:
            while True:
                batch = self._take_batch()
                if batch:
                    await self._send(batch)
                elif self._closed:
                    return
                else:
                    await self._arrived.wait()
                    self._arrived.clear()
        finally:
            await self._destination.close()

    def _take_batch(self) -> list[tuple[Task, bytes, Future[None]]]:
        batch, size = list[tuple[Task, bytes, Future[None]]](), 0
        with self._lock:
            while self._waiting and len(batch) < _AT_ONCE:
                size += len(self._waiting[0][1])
                if batch and size > _MOST_BYTES:
                    break
                batch.append(self._waiting.popleft())
        return [each for each in batch if each[2].set_running_or_notify_cancel()]

    async def _send(self, batch: Sequence[tuple[Task, bytes, Future[None]]]) -> None:
        """Sends a batch; one that is refused is sent in parts, so each task has its own result."""
        search = FailureIsolation(batch)
        for part in search:
            failure = await self._send_until_deadline([(task, encoded) for task, encoded, _ in part])
            if isinstance(failure, InvalidError | TooLargeError) and search.halve(failure):
                continue
            for _, _, scheduled in part:
                if failure is None:
                    scheduled.set_result(None)
                else:
                    scheduled.set_exception(failure)

    async def _send_until_deadline(self, batch: Sequence[tuple[Task, bytes]]) -> BaseException | None:
        loop = asyncio.get_running_loop()
        ends, attempt = loop.time() + self._deadline_s, 0
        while batch:
            try:
                await self._destination.send(batch)
            except UnavailableError as exc:
                if loop.time() >= ends:
                    return exc
                pause = double_pause(_FIRST_PAUSE, attempt, longest=_LONGEST_PAUSE)
                attempt += 1
                await asyncio.sleep(pause.total_seconds())
            except Exception as exc:  # noqa: BLE001 - it is the result of these tasks
                return exc
            else:
                return None
        return None


class _Destination(Protocol):
    encode: Callable[[Task], bytes]

    async def send(self, batch: Sequence[tuple[Task, bytes]]) -> None: ...

    async def close(self) -> None: ...


class _Topic:
    """Appends records to a topic, each to the partition of its ordering id."""

    encode = staticmethod(encode)

    def __init__(self, url: str, topic: str) -> None:
        self._url = url
        self._topic = topic
        self._broker: Broker | None = None

    async def send(self, batch: Sequence[tuple[Task, bytes]]) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._broker = self._broker or await open_broker(self._url)
                partitions = await self._broker.partitions(self._topic)
                await self._broker.append(
                    [
                        Outgoing(
                            self._topic,
                            partition_of_id(task.ordering_id, partitions),
                            task.ordering_id.encode(),
                            encoded,
                        )
                        for task, encoded in batch
                    ]
                )
        except TimeoutError as exc:
            raise UnavailableError("the log did not answer in time") from exc

    async def close(self) -> None:
        if self._broker is not None:
            await self._broker.close()


class _Api:
    """Posts batches to `/api/v1/tasks`."""

    encode = staticmethod(lambda task: orjson.dumps(to_json(task)))

    def __init__(self, url: str, queue: str) -> None:
        self._url = url.rstrip("/")
        self._queue = queue
        token = token_for(self._url, os.environ)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, headers=headers)

    async def send(self, batch: Sequence[tuple[Task, bytes]]) -> None:
        body = b"[" + b",".join(encoded for _, encoded in batch) + b"]"
        try:
            answer = await self._client.post(
                f"{self._url}/api/v1/tasks",
                params={"queue": self._queue},
                content=body,
                headers={"Content-Type": "application/json"},
            )
        except httpx.HTTPError as exc:
            raise UnavailableError(f"{self._url}: {exc or type(exc).__name__}") from exc
        if answer.status_code >= 400:
            raise _failure(answer, self._queue)

    async def close(self) -> None:
        await self._client.aclose()


def _failure(answer: httpx.Response, queue: str) -> StreamschedError:
    try:
        reason = str(answer.json()["errors"][0])
    except (ValueError, LookupError, TypeError):
        reason = answer.text[:200]
    match answer.status_code:
        case 400:
            return InvalidError("$", reason)
        case 404:
            return NotFoundError("queue", queue)
        case 413:
            return TooLargeError(queue, len(answer.request.content), _MOST_BYTES)
        case status if status >= 500 or status in COME_BACK:
            return UnavailableError(f"HTTP {status}: {reason}")
        case status:
            return ConfigurationError(f"HTTP {status}: {reason}")

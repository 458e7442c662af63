"""A worker: receives tasks of queues over HTTP and does them with functions of a program.

    from streamsched.tasks.worker import ReceivedTask, TaskWorker

    worker = TaskWorker("http://127.0.0.1:8765", concurrency=20)

    @worker.task("mail")
    async def send(task: ReceivedTask) -> None:
        await post(task.json())

    worker.run()

A function that returns acknowledges its task; one that raises fails the attempt. One that is no coroutine runs in a
thread. A task whose attempt may last longer than the queue's `timeout` calls `task.heartbeat()` from time to time, or
has `@worker.task("mail", heartbeats=True)`.

The worker asks the API for the processes that deliver tasks and opens a stream to each. When a stream breaks, its tasks
are delivered again, perhaps to another worker, so its coroutines are cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Any, Final, TypeVar

import httpx
import orjson

from streamsched.codec.tasks.worker import (
    MOST_CREDIT,
    MOST_REPORTED,
    DeliveredTask,
    WorkerReport,
    read_task,
    report_to_json,
)
from streamsched.domain.errors import ConfigurationError, StreamschedError, describe_failure
from streamsched.emit.destination import NO_DESTINATION, find_destination, token_for
from streamsched.process.pausing import pause

log = logging.getLogger("streamsched.tasks")

_LOOKUP_S: Final = 2.0
_RETRY_S: Final = 0.5
_CONNECT_S: Final = 10.0
#: Seconds without a line after which a stream is broken.
_SILENCE_S: Final = 20.0
#: A report waits so long for further ends.
_GATHER_S: Final = 0.002
_HEARTBEAT_S: Final = 5.0

_F = TypeVar("_F", bound=Callable[["ReceivedTask"], Any])


@dataclass(frozen=True, slots=True)
class ReceivedTask:
    """A task that the worker does."""

    _delivered: DeliveredTask
    _beat: Callable[[], None]

    @property
    def id(self) -> str:
        return self._delivered.id

    @property
    def queue(self) -> str:
        return self._delivered.queue

    @property
    def lane(self) -> str:
        return self._delivered.lane

    @property
    def key(self) -> str:
        return self._delivered.key

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._delivered.attempt

    @property
    def due_at(self) -> datetime:
        """Its planned time (UTC)."""
        return self._delivered.due_at

    @property
    def data(self) -> bytes:
        return self._delivered.data

    def json(self) -> Any:
        """The data as JSON; None without data."""
        return orjson.loads(self.data) if self.data else None

    def heartbeat(self) -> None:
        """Says that the attempt goes on. From any thread; cheap."""
        self._beat()


@dataclass(frozen=True, slots=True)
class _Function:
    call: Callable[[ReceivedTask], Any]
    heartbeats: bool


class TaskWorker:
    """Does tasks, at most `concurrency` at a time. Belongs to one event loop.

    Args:
        url: of an API; None: `STREAMSCHED_URL`, or the `streamsched dev` of this folder.
        patience_s: how long tasks may go on when it stops.

    Raises:
        ConfigurationError: there is no URL, or `concurrency` is not from 1 to 1000.
    """

    def __init__(self, url: str | None = None, *, concurrency: int = 10, patience_s: float = 30.0) -> None:
        if url is None:
            found = find_destination()
            if found is None:
                raise ConfigurationError(f"no URL was given, and {NO_DESTINATION}")
            url = found.url
        if not 1 <= concurrency <= MOST_CREDIT:
            raise ConfigurationError(f"concurrency must be from 1 to {MOST_CREDIT} but is {concurrency}")
        self.concurrency = concurrency
        self.functions: dict[str, _Function] = {}
        self.slots = asyncio.Semaphore(concurrency)
        self._url = url.rstrip("/")
        self._patience_s = patience_s
        self._stopping = asyncio.Event()

    def task(self, queue: str, *, heartbeats: bool = False) -> Callable[[_F], _F]:
        """Does the tasks of a queue with the decorated function. `heartbeats`: they are sent while it runs, so only the
        end of the worker ends an attempt.

        Raises:
            ConfigurationError: the queue has a function.
        """

        def register(call: _F) -> _F:
            if queue in self.functions:
                raise ConfigurationError(f"queue '{queue}' has a function")
            self.functions[queue] = _Function(call, heartbeats)
            return call

        return register

    def run(self) -> None:
        """Does tasks until SIGINT or SIGTERM; then takes nothing more, and ends the tasks in progress."""

        async def until_signal() -> None:
            loop = asyncio.get_running_loop()
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(each, self.stop)
            await self.serve()

        asyncio.run(until_signal())

    def stop(self) -> None:
        """Takes nothing more; `serve` returns when the tasks in progress have ended, or `patience_s` has passed.
        Idempotent.
        """
        self._stopping.set()

    async def serve(self) -> None:
        """Does tasks until `stop`.

        Raises:
            ConfigurationError: no queue has a function.
        """
        if not self.functions:
            raise ConfigurationError("no queue has a function: decorate one with @worker.task(queue)")
        streams: dict[str, _Stream] = {}
        # A deadline of reading is that of the silence; connections are as many as owners, with their reports.
        timeout = httpx.Timeout(_CONNECT_S, read=_SILENCE_S)
        limits = httpx.Limits(max_connections=None)
        token = token_for(self._url, os.environ)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False, headers=headers) as client:
            try:
                while not self._stopping.is_set():
                    await self._look_up(client, streams)
                    await pause(self._stopping, _LOOKUP_S)
            finally:
                await asyncio.gather(*(each.close(self._patience_s) for each in streams.values()))

    async def _look_up(self, client: httpx.AsyncClient, streams: dict[str, _Stream]) -> None:
        """Opens streams to new owners and ends those to former ones; shares the concurrency among them."""
        try:
            answer = await client.get(f"{self._url}/v1/tasks/owners")
            answer.raise_for_status()
            urls = {str(each["id"]): str(each["url"]) for each in answer.json()["owners"]}
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as exc:
            log.warning("owners.unknown url=%s why=%s", self._url, exc or type(exc).__name__)
            return
        for owner in streams.keys() - urls.keys():
            await streams.pop(owner).close(0)
        credit = ceil(self.concurrency / max(1, len(urls)))
        for owner, url in urls.items():
            if owner not in streams:
                streams[owner] = _Stream(self, client, url, credit)
            streams[owner].take(credit)


@dataclass(slots=True)
class _Work:
    """A task in progress. `beat`: a heartbeat of it is to be sent."""

    doing: asyncio.Task[None] | None = None
    always: bool = False
    beat: bool = False


@dataclass(slots=True)
class _News:
    """What the next report says."""

    done: list[int] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.done or self.failed)


class _Stream:
    """The connection to one owner; opened again when it breaks."""

    def __init__(self, worker: TaskWorker, client: httpx.AsyncClient, url: str, credit: int) -> None:
        self._worker = worker
        self._client = client
        self._url = f"{url.rstrip('/')}/v1/task-streams"
        self._credit = credit
        self._said = credit
        self._name: str | None = None
        self._every_s = _HEARTBEAT_S
        self._work: dict[int, _Work] = {}
        self._news = _News()
        self._wake = asyncio.Event()
        self._reporting = asyncio.Lock()
        self._closing = False
        self._running = asyncio.create_task(self._run())

    def take(self, credit: int) -> None:
        if credit != self._credit:
            self._credit = credit
            self._wake.set()

    async def close(self, patience_s: float) -> None:
        """Takes nothing more, waits for the tasks in progress, reports them, and disconnects."""
        self._closing = True
        self.take(0)
        loop = asyncio.get_running_loop()
        ends = loop.time() + patience_s
        while (doing := [each.doing for each in self._work.values() if each.doing]) and loop.time() < ends:
            await asyncio.wait(doing, timeout=ends - loop.time())
            await asyncio.sleep(0)
        if self._name is not None:
            with suppress(httpx.HTTPError):
                await self._report(self._name)  # after the report that is on its way, which ends with the connection
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def _run(self) -> None:
        while True:
            try:
                await self._receive()
                log.info("stream.ended url=%s", self._url)
            except (httpx.HTTPError, StreamschedError, ValueError) as exc:
                log.warning("stream.broken url=%s why=%s", self._url, exc or type(exc).__name__)
            finally:
                self._abandon()
            if self._closing:
                return
            await asyncio.sleep(_RETRY_S)

    async def _receive(self) -> None:
        """Reads the stream until it ends."""
        self._said = self._credit
        body = {"queues": sorted(self._worker.functions), "credit": self._credit}
        async with self._client.stream("POST", self._url, json=body) as response:
            if response.status_code >= 400:
                await response.aread()
                response.raise_for_status()
            reporting: asyncio.Task[None] | None = None
            try:
                async for text in response.aiter_lines():
                    match orjson.loads(text):
                        case {"task": given}:
                            self._begin(read_task(given))
                        case {"stop": int(delivery)}:
                            self._stop(delivery)
                        case {"stream": str(name), "reportEvery": every}:
                            self._name, self._every_s = name, float(every)
                            reporting = asyncio.create_task(self._report_always(name))
                        case _:
                            pass
                    if reporting is not None and reporting.done():
                        reporting.result()
                        return
            finally:
                self._name = None
                if reporting is not None:
                    reporting.cancel()
                    with suppress(asyncio.CancelledError, httpx.HTTPError):
                        await reporting

    def _begin(self, task: DeliveredTask) -> None:
        function = self._worker.functions.get(task.queue)
        if function is None:
            self._end(task.delivery, f"this worker has no function for queue '{task.queue}'")
            return
        loop = asyncio.get_running_loop()
        work = self._work[task.delivery] = _Work(always=True)  # also while it waits for a slot

        def beat() -> None:
            work.beat = True
            loop.call_soon_threadsafe(self._wake.set)

        received = ReceivedTask(task, beat)
        work.doing = asyncio.create_task(self._do(task.delivery, work, function, received))

    async def _do(self, delivery: int, work: _Work, function: _Function, task: ReceivedTask) -> None:
        reason: str | None = None
        try:
            async with self._worker.slots:
                work.always = function.heartbeats
                await _call(function.call, task)
        except Exception as exc:  # a failure of the user's function is the end of the attempt
            log.warning("task.failed queue=%s lane=%s key=%s", task.queue, task.lane, task.key, exc_info=exc)
            reason = describe_failure(exc)
        self._work.pop(delivery, None)
        self._end(delivery, reason)

    def _end(self, delivery: int, reason: str | None) -> None:
        if reason is None:
            self._news.done.append(delivery)
        else:
            self._news.failed.append((delivery, reason))
        self._wake.set()

    def _stop(self, delivery: int) -> None:
        work = self._work.pop(delivery, None)
        if work is not None and work.doing is not None:
            work.doing.cancel()

    def _abandon(self) -> None:
        """Cancels what the owner delivers again."""
        for delivery in list(self._work):
            self._stop(delivery)
        self._news = _News()

    async def _report_always(self, name: str) -> None:
        """Reports news as they come, and heartbeats; raises when the stream is gone."""
        while True:
            await pause(self._wake, self._every_s)
            self._wake.clear()
            await asyncio.sleep(_GATHER_S)
            await self._report(name)

    async def _report(self, name: str) -> None:
        """Reports what is new, or only that the worker is there; one report at a time."""
        async with self._reporting:
            news, self._news = self._news, _News()
            beats = [number for number, work in self._work.items() if work.beat or work.always]
            for number in beats:
                self._work[number].beat = False
            credit = self._credit if self._credit != self._said else None
            self._said = self._credit
            while True:
                done, failed = news.done[:MOST_REPORTED], news.failed[:MOST_REPORTED]
                report = WorkerReport(tuple(done), tuple(failed), tuple(beats[:MOST_REPORTED]), credit)
                answer = await self._client.post(f"{self._url}/{name}", json=report_to_json(report))
                answer.raise_for_status()
                del news.done[:MOST_REPORTED], news.failed[:MOST_REPORTED], beats[:MOST_REPORTED]
                if not (news or beats):
                    return


async def _call(call: Callable[[ReceivedTask], Any], task: ReceivedTask) -> None:
    if inspect.iscoroutinefunction(call):
        await call(task)
        return
    found = await asyncio.to_thread(call, task)
    if isinstance(found, Awaitable):
        await found

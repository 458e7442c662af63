"""Workers that are connected to this process and take tasks, as many at a time as they have credits.

Without a worker, tasks are staged: their owner does not start them, so they use up no attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from streamsched.domain.tasks.attempt import Acknowledged, AttemptEnd, AttemptFailed, Interrupted, StartedTask
from streamsched.domain.tasks.queue import Target
from streamsched.ports.clock import Clock


class WorkerStreams:
    """See `ports.tasks.delivery.Receiver`. Belongs to one event loop."""

    def __init__(self, clock: Clock, *, on_room: Callable[[], None] = lambda: None) -> None:
        """`on_room` is called when a worker connects or has room again."""
        self.clock = clock
        self.on_room = on_room
        self._streams: list[WorkerStream] = []

    def connect(self, queues: Collection[str], *, credit: int) -> WorkerStream:
        """A stream of the tasks of these queues, at most `credit` at a time. Use it in a `with` block."""
        return WorkerStream(self, frozenset(queues), credit)

    def room(self, queue: str) -> int:
        return sum(stream.free for stream in self._streams if queue in stream.queues)

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        del target
        able = [stream for stream in self._streams if task.queue in stream.queues and stream.free > 0]
        if not able:
            return Interrupted(self.clock.now(), "no worker of its queue has room")
        return await max(able, key=lambda stream: stream.free).deliver(task)

    async def close(self) -> None:
        """Connected workers end by themselves."""

    def attach(self, stream: WorkerStream) -> None:
        self._streams.append(stream)
        self.on_room()

    def detach(self, stream: WorkerStream) -> None:
        self._streams.remove(stream)


class WorkerStream:
    """One connected worker. Tasks that it has not ended when the block ends are delivered again."""

    def __init__(self, streams: WorkerStreams, queues: frozenset[str], credit: int) -> None:
        self.queues = queues
        self._streams = streams
        self._credit = credit
        self._unread: deque[StartedTask] = deque()
        self._ends: dict[str, asyncio.Future[AttemptEnd]] = {}
        self._arrived = asyncio.Event()

    def __enter__(self) -> Self:
        self._streams.attach(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._streams.detach(self)
        for token in list(self._ends):
            self._end(token, Interrupted(self._streams.clock.now(), "its worker disconnected"))

    @property
    def free(self) -> int:
        """How many more tasks it takes now."""
        return self._credit - len(self._ends)

    async def next(self) -> StartedTask:
        """The next task; waits for one. End each by `acknowledge` or `fail`, with its `token`."""
        while not self._unread:
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popleft()

    def acknowledge(self, token: str, detail: str = "") -> None:
        """The task is done. Unknown tokens, and repeats, are ignored."""
        self._end(token, Acknowledged(self._streams.clock.now(), detail))

    def fail(self, token: str, reason: str) -> None:
        """The attempt failed. Unknown tokens, and repeats, are ignored."""
        self._end(token, AttemptFailed(self._streams.clock.now(), reason))

    async def deliver(self, task: StartedTask) -> AttemptEnd:
        """Hands a task to the worker and waits for its end."""
        end: asyncio.Future[AttemptEnd] = asyncio.get_running_loop().create_future()
        self._ends[task.token] = end
        self._unread.append(task)
        self._arrived.set()
        try:
            return await end
        finally:
            self._ends.pop(task.token, None)
            if task in self._unread:
                self._unread.remove(task)
            self._streams.on_room()

    def _end(self, token: str, end: AttemptEnd) -> None:
        waiting = self._ends.get(token)
        if waiting is not None and not waiting.done():
            waiting.set_result(end)

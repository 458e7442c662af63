"""Workers that are connected to this process and take tasks, as many at a time as they have credits.

Without a worker, tasks are staged: their owner does not start them, so they use up no attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from streamsched.domain.tasks.attempt import (
    Acknowledged,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
    WorkerLost,
)
from streamsched.domain.tasks.queue import Target, WorkerTarget
from streamsched.domain.time.duration import duration_text
from streamsched.ports.clock import Clock


@dataclass(frozen=True, slots=True)
class StoppedDelivery:
    """The worker need not go on with a task that it was given: its time is up, or it ended by hand."""

    token: str


class WorkerStreams:
    """A `tasks.attempt.Receiver`: workers that are connected. Belongs to one event loop."""

    def __init__(self, clock: Clock, *, on_room: Callable[[], None] = lambda: None) -> None:
        """`on_room` is called when a worker connects or has room again."""
        self.clock = clock
        self.on_room = on_room
        self._streams: list[WorkerStream] = []
        self._stopping = False

    def connect(
        self, queues: Collection[str], *, credit: int, quiet_s: float | None = None, counts_losses: bool = False
    ) -> WorkerStream:
        """A stream of the tasks of these queues, at most `credit` at a time. Use it in a `with` block.

        Args:
            quiet_s: it is given nothing more while `note_sign_of_life` was not called for so many seconds; None: never.
            counts_losses: tasks that it has not ended when the block ends have lost their worker, unless the worker
                took nothing more or the owner stops. Otherwise they are interrupted.
        """
        return WorkerStream(self, frozenset(queues), credit, quiet_s, counts_losses=counts_losses)

    def room(self, queue: str) -> int:
        """How many more tasks connected workers of the queue take now."""
        if self._stopping:
            return 0
        return sum(max(0, stream.free_room) for stream in self._streams if queue in stream.queues)

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        """Gives the task to the connected worker with the most room; its answer is the end of the attempt."""
        able = [stream for stream in self._streams if task.queue in stream.queues and stream.free_room > 0]
        if not able:
            return Interrupted(self.clock.now(), "no worker of its queue has room")
        stream = max(able, key=lambda stream: stream.free_room)
        return await stream.deliver(task, target if isinstance(target, WorkerTarget) else WorkerTarget())

    async def close(self) -> None:
        """Connected workers end by themselves."""

    @property
    def is_stopping(self) -> bool:
        """Whether nothing is given out any more."""
        return self._stopping

    def start(self) -> None:
        """Gives out tasks again, after a `stop`. Idempotent."""
        self._stopping = False

    async def stop(self, patience_s: float) -> None:
        """Gives out nothing more, waits for the tasks that workers do, and ends all streams."""
        self._stopping = True
        waiting = [end for stream in self._streams for end in stream.ends]
        if waiting:
            await asyncio.wait(waiting, timeout=patience_s)
        for stream in self._streams:
            stream.end()

    def attach(self, stream: WorkerStream) -> None:
        """Adds a worker that has connected."""
        self._streams.append(stream)
        self.on_room()

    def detach(self, stream: WorkerStream) -> None:
        """Removes a worker that has gone."""
        self._streams.remove(stream)


class WorkerStream:
    """One connected worker. Tasks that it has not ended when the block ends are delivered again (`connect`)."""

    def __init__(
        self,
        streams: WorkerStreams,
        queues: frozenset[str],
        credit: int,
        quiet_s: float | None = None,
        *,
        counts_losses: bool = False,
    ) -> None:
        self.queues = queues
        self._counts_losses = counts_losses
        self._streams = streams
        self._credit = credit
        self._quiet_s = quiet_s
        self._unread: deque[StartedTask | StoppedDelivery | None] = deque()
        self._unread_tokens: set[str] = set()  # of the tasks among them
        self._ends: dict[str, asyncio.Future[AttemptEnd]] = {}
        self._limits: dict[str, tuple[asyncio.Timeout, float]] = {}
        self._arrived = asyncio.Event()
        self._seen_at = asyncio.get_running_loop().time()

    def __enter__(self) -> Self:
        self._streams.attach(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._streams.detach(self)
        now = self._streams.clock.now()
        end: AttemptEnd = Interrupted(now, "its worker disconnected")
        if self._counts_losses and self._credit > 0 and not self._streams.is_stopping:
            end = WorkerLost(now, "its worker was lost while it did the task")
        for token in list(self._ends):
            self._end(token, end)

    @property
    def free_room(self) -> int:
        """How many more tasks it takes now; none when its worker is quiet."""
        quiet = self._quiet_s is not None and asyncio.get_running_loop().time() - self._seen_at > self._quiet_s
        return 0 if quiet else self._credit - len(self._ends)

    def note_sign_of_life(self) -> None:
        """The worker has sent something."""
        self._seen_at = asyncio.get_running_loop().time()
        self._streams.on_room()

    def take(self, credit: int) -> None:
        """Sets how many tasks it takes at a time; 0: nothing more."""
        self._credit = credit
        self._streams.on_room()

    @property
    def ends(self) -> Collection[asyncio.Future[AttemptEnd]]:
        """The ends that are awaited."""
        return self._ends.values()

    def end(self) -> None:
        """The owner stops: there is no news after this."""
        self._send(None)

    async def next_task(self) -> StartedTask:
        """The next task; waits for one. End each by `acknowledge` or `fail`, with its `token`."""
        while True:
            found = await self.news()
            if isinstance(found, StartedTask):
                return found

    async def news(self) -> StartedTask | StoppedDelivery | None:
        """The next task, or a task that need not go on; waits for one. None: the owner stops."""
        while not self._unread:
            self._arrived.clear()
            await self._arrived.wait()
        news = self._unread.popleft()
        if isinstance(news, StartedTask):
            self._unread_tokens.discard(news.token)
        return news

    def acknowledge(self, token: str, detail: str = "", *, handled: bool = True) -> None:
        """The task is done; `handled` False: its app has no handler for it. Unknown tokens and repeats are ignored."""
        self._end(token, Acknowledged(self._streams.clock.now(), detail, handled))

    def mark_lost(self, token: str, reason: str) -> None:
        """The worker was lost while it did the task. Unknown tokens, and repeats, are ignored."""
        self._end(token, WorkerLost(self._streams.clock.now(), reason))

    def fail(self, token: str, reason: str) -> None:
        """The attempt failed. Unknown tokens, and repeats, are ignored."""
        self._end(token, AttemptFailed(self._streams.clock.now(), reason))

    def heartbeat(self, token: str) -> None:
        """The worker still works on the task: its time begins anew. Unknown tokens are ignored."""
        limit, seconds = self._limits.get(token, (None, 0.0))
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + seconds)

    async def deliver(self, task: StartedTask, target: WorkerTarget | None = None) -> AttemptEnd:
        """Hands a task to the worker and waits for its end, as long as the target allows."""
        timeout = (target or WorkerTarget()).timeout
        end: asyncio.Future[AttemptEnd] = asyncio.get_running_loop().create_future()
        token = task.token
        self._ends[token] = end
        self._unread_tokens.add(token)
        self._send(task)
        try:
            async with asyncio.timeout(timeout.total_seconds()) as limit:
                self._limits[token] = (limit, timeout.total_seconds())
                return await end
        except TimeoutError:
            why = f"its worker neither ended it nor sent a heartbeat for {duration_text(timeout)}"
            return AttemptFailed(self._streams.clock.now(), why)
        finally:
            self._ends.pop(token, None)
            self._limits.pop(token, None)
            if token in self._unread_tokens:
                self._unread_tokens.discard(token)
                self._unread.remove(task)
            elif not end.done() or end.cancelled():
                self._send(StoppedDelivery(token))
            self._streams.on_room()

    def _send(self, what: StartedTask | StoppedDelivery | None) -> None:
        self._unread.append(what)
        self._arrived.set()

    def _end(self, token: str, end: AttemptEnd) -> None:
        waiting = self._ends.get(token)
        if waiting is not None and not waiting.done():
            waiting.set_result(end)

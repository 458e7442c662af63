"""An asyncio event loop whose time and order come from a seed, and whose processes can be killed and stopped.

Time is a number: it jumps to the next timer when nothing is ready, so an hour of waiting costs nothing. Of what is
ready the seed draws what runs next. Every callback belongs to the process in whose context it was made, so a process is
killed as SIGKILL would (nothing of it runs any more, not even a `finally`) and stopped as SIGSTOP would (nothing runs
until it goes on, and then everything that is overdue) without any help of the code in it.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: Whose code runs. The world itself is never killed.
WORLD: Final = "world"
PROCESS: Final[ContextVar[str]] = ContextVar("process", default=WORLD)

#: What one callback costs, in seconds: so that a loop that never sleeps does not stop time.
_STEP: Final = 2e-5


class StandstillError(Exception):
    """Nothing is ready and no timer is set, or far more happened than ever should."""


class NumberedTask(asyncio.Task[Any]):
    """A task that sets order by its number, not by where it happens to lie in memory."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self.number = number  # first of all: asyncio puts it into a set of its own
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future[Any]):
    """A future that sets order by its number."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimulationLoop(asyncio.AbstractEventLoop):
    """Runs one simulation, then is thrown away. No threads, no sockets, no real time."""

    def __init__(self, seed: str, *, most_steps: int = 3_000_000) -> None:
        self._rng = random.Random(seed)
        self._left = most_steps
        self._now = 0.0
        self._ready: list[tuple[str, asyncio.Handle]] = []
        self._timers: list[tuple[float, int, str, asyncio.TimerHandle]] = []
        self._made = 0
        self._dead: set[str] = set()
        self._stopped: defaultdict[str, list[tuple[str, asyncio.Handle]]] = defaultdict(list)
        self._graveyard: list[asyncio.Handle] = []  # what is collected would run its `finally`
        self._tasks: list[asyncio.Task[Any]] = []
        self._running = False

    # -- processes

    def kill(self, process: str) -> None:
        """Nothing of it runs any more. The task that calls this for its own process must not go on."""
        self._dead.add(process)
        self._graveyard += [handle for _, handle in self._stopped.pop(process, [])]

    def stop_process(self, process: str) -> None:
        """Nothing of it runs until `continue_process`."""
        self._stopped.setdefault(process, [])

    def continue_process(self, process: str) -> None:
        self._ready += self._stopped.pop(process, [])

    def spawn(self, process: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of that process, for any caller."""
        context = copy_context()
        context.run(PROCESS.set, process)
        return context.run(self.create_task, work)

    # -- running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs `main` to its end; then, untouched by anything that counts, what is left is unwound.

        Raises:
            StandstillError: `main` waits for what will never come.
        """
        collecting = gc.isenabled()
        gc.disable()  # a collection in the middle would finish what hangs in dead processes
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            task = self.create_task(main)
            while not task.done():
                self._step()
            self._unwind()
            return task.result()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            if collecting:
                gc.enable()

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise StandstillError(f"too many steps by {self._now:.3f} s")
        timers = self._timers
        if not self._ready:
            if not timers:
                raise StandstillError(f"nothing will ever happen after {self._now:.3f} s")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            _, _, process, handle = heapq.heappop(timers)
            self._ready.append((process, handle))
        ready = self._ready
        place = self._rng.randrange(len(ready)) if len(ready) > 1 else 0
        ready[place], ready[-1] = ready[-1], ready[place]
        process, handle = ready.pop()
        if process in self._dead:
            self._graveyard.append(handle)
        elif process in self._stopped:
            self._stopped[process].append((process, handle))
        elif not handle.cancelled():
            self._now += _STEP
            handle._run()

    def _unwind(self) -> None:
        """Ends every task that is left, dead processes' too, so that nothing complains when it is collected."""
        self._dead.clear()
        for process in list(self._stopped):
            self.continue_process(process)
        self._ready += [(WORLD, handle) for handle in self._graveyard]
        self._left = 1_000_000
        for _ in range(20):
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    task.cancel()
            while self._ready:
                self._step()
            if all(task.done() for task in self._tasks):
                break

    # -- asyncio.AbstractEventLoop: what asyncio itself, Faust and we use of it

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None: ...

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        self._made += 1
        return NumberedFuture(self._made, loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        self._made += 1
        task = NumberedTask(self._made, coro, loop=self, name=name or "", context=context)
        self._tasks.append(task)
        return task

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((_owner(context), handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, _owner(context), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None: ...

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing: what becomes of the cluster is judged, not what it says of its faults."""


def _owner(context: Context | None) -> str:
    return PROCESS.get() if context is None else context.get(PROCESS, WORLD)

"""A limit on the CPU time of one pure function call, by a timer of the kernel.

The event loop of a worker runs the folds of all its shards. A fold that takes very long would block all of them, so it
is interrupted: an exception is raised inside it, between two bytecodes or out of a C function that checks for signals
(as `re` does). Only pure code may be called under the limit, since it can be interrupted anywhere.

The limit is on CPU time, not wall time: a stopped process or a busy machine causes no interruption. A call that waits
without using the CPU, or runs in C without checking for signals, is not interrupted; the watchdog ends such a process.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, ParamSpec, TypeVar

from streamsched.domain.errors import StreamschedError

#: The number of timer signals within the limit.
_TICKS: Final = 4

_P = ParamSpec("_P")
_T = TypeVar("_T")


class TimeLimitError(StreamschedError):
    """The call used more CPU time than allowed: `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"interrupted after {seconds:g} s of CPU time, the limit for one signal")
        self.seconds = seconds


class TimeLimit:
    """Applies in the main thread, the only one in which Python runs signal handlers; in others, calls are not limited.

    One timer and one handler (`SIGVTALRM`) serve the process, so at most one limit is armed at a time.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds`: CPU time of one call; the interruption arrives between 1 and 1.5 times that."""
        self.seconds = seconds
        self._since: float | None = None

    @contextmanager
    def arm(self) -> Iterator[None]:
        """Runs the timer; `call` has no limit outside of this context. Costs four system calls."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGVTALRM, self._tick)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds / _TICKS, self.seconds / _TICKS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The function's result.

        Raises:
            TimeLimitError: the limit was exceeded; the function was interrupted at an arbitrary point.
        """
        self._since = None
        return function(*args, **kwargs)

    def _tick(self, _number: int, frame: FrameType | None) -> None:
        """Raises only in frames below `call`, never in `call` itself or outside it: a returned result is not lost, and
        no other code is interrupted.
        """
        code = TimeLimit.call.__code__
        if frame is None or frame.f_code is code:
            return
        while (frame := frame.f_back) is not None and frame.f_code is not code:
            pass
        if frame is None:
            return
        now = time.thread_time()
        if self._since is None:
            self._since = now
        elif now - self._since >= self.seconds:
            raise TimeLimitError(self.seconds)

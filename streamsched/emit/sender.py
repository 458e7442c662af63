"""The background thread of an `Emitter` that has a spool.

The thread runs submitted calls in order, and flushes the spool between them: when requested, then after the pauses that
`flush` returns, until that returns None. It starts when there is work and ends when there is none, so an idle emitter
has no thread. It is a daemon: the process does not wait for it at exit, because unsent events are on disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, TypeVar

_T = TypeVar("_T")


class Sender:
    """Runs calls one at a time on its own thread. Thread-safe.

    Args:
        flush: sends the spool; returns the seconds until the next call, or None when the spool is empty. Must not
            raise.
    """

    def __init__(self, flush: Callable[[], float | None]) -> None:
        self._flush = flush
        self._changed = threading.Condition()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._flush_at: float | None = None
        self._began: float | None = None
        self._thread: threading.Thread | None = None

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Queues a call; the future gets its result or exception. Cancelling it drops a call not yet started."""
        future: Future[_T] = Future()
        with self._changed:
            self._calls.append((future, call))
            self._wake()
        return future

    def flush_in(self, seconds: float) -> None:
        """Schedules a flush in so many seconds, unless one is scheduled: however often it is asked for, the pauses of
        `flush` stay as long as they are.
        """
        with self._changed:
            if self._flush_at is None:
                self._flush_at = monotonic() + seconds
                self._wake()

    def cancel_flush(self) -> bool:
        """Cancels the scheduled flush; returns whether there was one."""
        with self._changed:
            due, self._flush_at = self._flush_at is not None, None
            self._changed.notify_all()
        return due

    def seconds_stuck(self) -> float:
        """Seconds since the start of the call or flush in progress; 0 when the thread is idle."""
        began = self._began
        return 0.0 if began is None else monotonic() - began

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # not alive: this process is a fork
            self._thread = threading.Thread(target=self._work, name="streamsched-emit", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._wait():
                    self._thread = None
                    return
                future, call = self._calls.popleft() if self._calls else (None, None)
                if call is None:
                    self._flush_at = None
                self._began = monotonic()
            if call is None or future is None:
                next_in = self._flush()
                if next_in is not None:
                    with self._changed:
                        self._flush_at = monotonic() + next_in
            elif future.set_running_or_notify_cancel():
                _run(future, call)
            self._began = None

    def _wait(self) -> bool:
        """Waits until a call or a flush is due; False when neither is scheduled."""
        while not self._calls:
            if self._flush_at is None:
                return False
            left = self._flush_at - monotonic()
            if left <= 0:
                return True
            self._changed.wait(left)
        return True


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result = call()
    except BaseException as exc:  # noqa: BLE001 (raised in the waiting thread)
        future.set_exception(exc)
    else:
        future.set_result(result)

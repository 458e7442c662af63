"""The watchdog: a thread that ends a worker process that makes no progress, so that others take its shards (ADR 4).

A blocked event loop sends no heartbeats and loses its leases, but never recovers. A shard that hangs while the loop
runs keeps its lease indefinitely. Both end the process, with a last log line that has the stack of the event loop.

The thread cannot run while another thread holds Python's interpreter lock, as C code may. So the thread keeps
postponing a timer of the kernel; when it expires (`SIGPROF`), after 1.5 times the patience in CPU time, the process
ends and the stacks of all threads are written to standard error.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog

from streamsched.telemetry.shard_stats import ShardStats

#: The exit status of a process that the watchdog ended (`EX_SOFTWARE`).
STUCK: Final = 70
#: Checks within the patience. Silence is counted in checks: a process that was stopped for a while makes none
#: meanwhile, and so is not stuck when it continues.
_CHECKS: Final = 20
#: Seconds for the last log line; when logging itself hangs, the process ends without it.
_LAST_LINE_S: Final = 2.0
_LOOP: Final = "loop"
#: The timer counts the CPU seconds of all threads: it is at least what all cores use between so many checks.
_HARD: Final = 1.5
_CHECKS_MISSED: Final = 2

log = structlog.get_logger()


class Watchdog:
    """Watches the progress of an event loop and of its shards; one without progress for `patience_s` seconds is
    stuck.
    """

    def __init__(
        self,
        stats: Callable[[], Mapping[int, ShardStats]],
        *,
        patience_s: float,
        excused: Callable[[], bool] = lambda: False,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """`excused`: whether shards may hang for a known reason, e.g. an unavailable log. `end`: ends the process.

        It watches the running loop.
        """
        self.patience_s = patience_s
        self._stats = stats
        self._excused = excused
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._answers = 0
        self._seen: dict[str, tuple[int, int]] = {}
        #: CPU seconds after which the timer ends the process.
        self._hard_s = max(_HARD * patience_s, _CHECKS_MISSED * patience_s / _CHECKS * (os.cpu_count() or 1))

    def silent_s(self) -> Mapping[str, float]:
        """Seconds without progress of the loop and of each shard. Safe to call from any thread."""
        return {name: checks * self.patience_s / _CHECKS for name, (_, checks) in self._seen.items()}

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Runs the watching thread."""
        ended = threading.Event()
        if self._end is os._exit:
            faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)
        self._set_timer(self._hard_s)  # the first record may keep the thread from ever running
        thread = threading.Thread(target=self._watch, args=(ended,), name="streamsched-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            self._set_timer(0)

    def check(self) -> str | None:
        """One check: the name of what is stuck, or None. Schedules a callback on the loop for the next check."""
        progress = {_LOOP: self._answers}
        blocked = self._answers == self._seen.get(_LOOP, (-1, 0))[0]
        if not blocked and not self._excused():
            progress |= {f"shard {number}": stats.progress for number, stats in self._stats().items()}
        seen = {} if not blocked else dict(self._seen)  # while the loop is blocked its shards make no progress either
        for name, now in progress.items():
            before, checks = self._seen.get(name, (-1, 0))
            seen[name] = now, checks + 1 if now == before else 0
        self._seen = seen
        self._loop.call_soon_threadsafe(self._answer)
        return next((name for name, (_, checks) in self._seen.items() if checks >= _CHECKS), None)

    def _answer(self) -> None:
        self._answers += 1

    def _watch(self, ended: threading.Event) -> None:
        every_s = self.patience_s / _CHECKS
        while not ended.wait(every_s):
            self._set_timer(self._hard_s)
            try:
                stuck = self.check()
            except RuntimeError:  # the loop is closed: the process is ending
                return
            if stuck is not None:
                self._last_line(stuck)
                return

    def _set_timer(self, seconds: float) -> None:
        """Sets the timer that ends the process by a signal, 0: none. Only when `end` is `os._exit`."""
        if self._end is os._exit:
            signal.setitimer(signal.ITIMER_PROF, seconds)

    def _last_line(self, stuck: str) -> None:
        fallback = threading.Timer(_LAST_LINE_S, self._end, args=(STUCK,))
        fallback.daemon = True
        fallback.start()
        doing = {number: stats.doing for number, stats in self._stats().items()}
        frame = sys._current_frames().get(self._loop_thread)
        stack = [] if frame is None else traceback.format_stack(frame)[-8:]
        log.critical(
            "worker.stuck",
            stuck=stuck,
            silent_s=self.patience_s,
            shards=doing,
            loop_at="".join(stack).strip(),
            reason="no progress: the process ends itself, so that others take its shards",
        )
        fallback.cancel()
        self._end(STUCK)

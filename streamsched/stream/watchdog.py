"""The watchdog: a thread that ends a worker which is alive but gets nothing done, so that others take its shards.

A blocked event loop does not beat, and loses its leases by itself; but it would never come back. A shard that hangs
while the loop goes on keeps its lease for good: nobody would notice. Both end the process, with a last line that says
what it hung in.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog

from streamsched.stream.signs import Signs

#: What a process that ended itself leaves (`EX_SOFTWARE`).
STUCK: Final = 70
#: Looks within the patience. A process that was stopped and goes on misses looks, not signs: it is not stuck.
_LOOKS: Final = 20
#: Seconds for the last line; where the log itself is what hangs, the process ends without it.
_LAST_LINE_S: Final = 2.0
_LOOP: Final = "loop"

log = structlog.get_logger()


class Watchdog:
    """Looks at signs of life; whoever has given none for `patience_s` seconds of its looking is stuck."""

    def __init__(
        self,
        signs: Callable[[], Mapping[int, Signs]],
        *,
        patience_s: float,
        excused: Callable[[], bool] = lambda: False,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """`excused`: when shards may hang for a reason that is known, as when the log is away. `end` ends the process.

        It watches the loop it is made in.
        """
        self.patience_s = patience_s
        self._signs = signs
        self._excused = excused
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._loops = threading.get_ident()
        self._answers = 0
        self._seen: dict[str, tuple[int, int]] = {}

    def silent_s(self) -> Mapping[str, float]:
        """For how many seconds of its looking the loop, and each shard, has given no sign; from any thread."""
        return {name: looks * self.patience_s / _LOOKS for name, (_, looks) in self._seen.items()}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches from a thread of its own."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,), name="streamsched-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()

    def look(self) -> str | None:
        """One look: who is stuck, None: nobody. The loop is asked to answer until the next."""
        progress = {_LOOP: self._answers}
        blocked = self._answers == self._seen.get(_LOOP, (-1, 0))[0]
        if not blocked and not self._excused():
            progress |= {f"shard {number}": signs.progress for number, signs in self._signs().items()}
        seen = {} if not blocked else dict(self._seen)  # while the loop is blocked its shards cannot go on either
        for name, now in progress.items():
            before, looks = self._seen.get(name, (-1, 0))
            seen[name] = now, looks + 1 if now == before else 0
        self._seen = seen
        self._loop.call_soon_threadsafe(self._answer)
        return next((name for name, (_, looks) in self._seen.items() if looks >= _LOOKS), None)

    def _answer(self) -> None:
        self._answers += 1

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(self.patience_s / _LOOKS):
            try:
                stuck = self.look()
            except RuntimeError:  # the loop is closed: the process ends anyway
                return
            if stuck is not None:
                self._last_line(stuck)
                return

    def _last_line(self, stuck: str) -> None:
        whatever = threading.Timer(_LAST_LINE_S, self._end, args=(STUCK,))
        whatever.daemon = True
        whatever.start()
        doing = {number: signs.doing for number, signs in self._signs().items()}
        frame = sys._current_frames().get(self._loops)
        stack = [] if frame is None else traceback.format_stack(frame)[-8:]
        log.critical(
            "worker.stuck",
            stuck=stuck,
            silent_s=self.patience_s,
            shards=doing,
            loop_at="".join(stack).strip(),
            reason="nothing gets done any more: the process ends itself, others take its shards",
        )
        whatever.cancel()
        self._end(STUCK)

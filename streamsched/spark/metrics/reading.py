"""Reads a run's metrics on a thread of its own, every few seconds and once more at the end.

A source that hangs holds up nothing: the run goes on with the metrics that were read last, and its process may end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

import structlog

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.spark.metrics.source import MetricsSource

log = structlog.get_logger()

#: The part of the time of the last reading after which a source that never ends is closed.
_OF_LAST: Final = 0.8


class MetricsReader:
    """Belongs to the runner of one run."""

    def __init__(self, source: MetricsSource, *, run: str, every: float) -> None:
        """Starts the thread."""
        self._source = source
        self._run = run
        self._every = every
        self._ending = threading.Event()
        self._ended: Future[None] = Future()
        self._logged = ""
        self._close = True
        self._until = 0.0
        #: The metrics that were read last.
        self.latest: RunMetrics | None = None
        threading.Thread(target=self._read_on, name="run-metrics", daemon=True).start()

    async def finish(self, *, within: float, close: bool = True) -> RunMetrics | None:
        """Reads the rest and closes the source, for at most so many seconds; returns what was read last. Call it when
        the run's processes have ended. `close`: False when another goes on to read.
        """
        self._close = close
        self._until = time.monotonic() + within * _OF_LAST
        self._ending.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.shield(asyncio.wrap_future(self._ended))
        if not self._ended.done():
            log.warning("run.metrics_incomplete", run=self._run, within_s=within)
        return self.latest

    def _read_on(self) -> None:
        pause = self._every
        while not self._ending.wait(pause):
            began = time.monotonic()
            self._read()
            least = self._every if self._source.is_finished() else 0.0
            pause = max(least, time.monotonic() - began)  # at most half of a core
        self._source.note_end()
        self._read()
        while time.monotonic() < self._until and not self._source.is_finished() and self._read():
            pass
        if self._close:
            self._source.close()
        self._ended.set_result(None)

    def _read(self) -> bool:
        """Whether it could be read."""
        try:
            found = self._source.read()
        except Exception as exc:  # noqa: BLE001 (metrics are never worth a run)
            if str(exc) != self._logged:
                self._logged = str(exc)
                log.warning("run.metrics_unreadable", run=self._run, reason=repr(exc))
            return False
        self.latest = found or self.latest
        return True

"""Removes the files of runs that are neither live nor in the history, from the disk of this host.

Every launcher cleans the folder its runners write to; several on one host may run at a time.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from streamsched.ports.archive import Archive
from streamsched.ports.clock import Clock
from streamsched.ports.runner import RunFileStore
from streamsched.process.run_forever import run_forever

log = structlog.get_logger()

#: Seconds between two passes.
_EVERY: Final = 3600.0
#: Runs looked up in one query.
_BATCH: Final = 1000


class LogCleanup:
    """Belongs to one task. `keep`: how long the history keeps runs; younger files are skipped."""

    def __init__(self, files: RunFileStore, archive: Archive, clock: Clock, *, keep: timedelta) -> None:
        self._files = files
        self._archive = archive
        self._clock = clock
        self._keep = keep

    async def run(self) -> None:
        """Cleans until cancelled; retries while PostgreSQL is unavailable."""
        await run_forever(self._step, called="log_cleanup")

    async def run_once(self) -> int:
        """One pass; returns how many files were removed. A run that PostgreSQL knows keeps its files, however old.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        old = await asyncio.to_thread(self._files.untouched, self._clock.now() - self._keep)
        removed = 0
        for start in range(0, len(old), _BATCH):
            batch = old[start : start + _BATCH]
            known = await self._archive.known_runs(batch)
            removed += await asyncio.to_thread(self._files.clear, [run for run in batch if run not in known])
        if removed:
            log.info("log_cleanup.passed", files=removed)
        return removed

    async def _step(self) -> float:
        await self.run_once()
        return _EVERY

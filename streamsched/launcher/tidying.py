"""Keeps a host's disk small: the files of a run go when nobody can ask for the run any more.

Every launcher tidies up where its own runners write; two on one host do each other no harm.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.ports.archive import Archive
from streamsched.ports.clock import Clock
from streamsched.ports.shelf import Shelf

log = structlog.get_logger()

#: Seconds between two passes.
_PACE: Final = 3600.0
#: Runs that are asked for in one query.
_BATCH: Final = 1000


class Tidying:
    """Belongs to one task. `keep`: how long runs can be asked for; younger files are not looked at."""

    def __init__(self, shelf: Shelf, archive: Archive, clock: Clock, *, keep: timedelta) -> None:
        self._shelf = shelf
        self._archive = archive
        self._clock = clock
        self._keep = keep

    async def run(self) -> None:
        """Tidies until cancelled; while PostgreSQL is away it waits for it."""
        await attend(self._look, called="tidying")

    async def run_once(self) -> int:
        """One pass; returns how many files went. A run that is known, however old, keeps what it has.

        Raises:
            UnavailableError: PostgreSQL is away; call again.
        """
        old = await asyncio.to_thread(self._shelf.untouched, self._clock.now() - self._keep)
        removed = 0
        for start in range(0, len(old), _BATCH):
            some = old[start : start + _BATCH]
            known = await self._archive.known_runs(some)
            removed += await asyncio.to_thread(self._shelf.clear, [run for run in some if run not in known])
        if removed:
            log.info("tidying.passed", files=removed)
        return removed

    async def _look(self) -> float:
        await self.run_once()
        return _PACE

"""Removes the files of runs that are neither live nor in the history from the disk of this host, and empties logs where
those of a namespace together are larger than its quota `log_bytes`: of the runs that ended first.

Every launcher cleans the folder its runners write to; several on one host may run at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.quotas.quota import Quota
from streamsched.ports.access.quotas import Limits
from streamsched.ports.clock import Clock
from streamsched.ports.runner import RunFileStore, RunLog
from streamsched.process.run_forever import run_forever
from streamsched.store.jobs.archive import Archive

log = structlog.get_logger()

#: Seconds between two passes.
_EVERY: Final = 3600.0
#: Runs looked up in one query.
_BATCH: Final = 1000
#: Bytes on the disk of a log that is emptied: a block with the note that says so.
_NOTE: Final = 4096


def oldest_until(size: int, logs: Iterable[RunLog]) -> Sequence[str]:
    """The runs whose logs have together at least so many bytes, the oldest first; or all that have more than a note."""
    chosen: list[str] = []
    for each in sorted(logs, key=lambda log: (log.at, log.run)):
        if size <= 0:
            break
        if each.bytes > _NOTE:
            chosen.append(each.run)
            size -= each.bytes - _NOTE
    return chosen


class LogCleanup:
    """Belongs to one task. `keep`: how long the history keeps runs; younger files are skipped. `limits`: reads the
    quotas of namespaces.
    """

    def __init__(
        self,
        files: RunFileStore,
        archive: Archive,
        clock: Clock,
        *,
        keep: timedelta,
        limits: Callable[[], Awaitable[Limits]] | None = None,
    ) -> None:
        self._files = files
        self._archive = archive
        self._clock = clock
        self._keep = keep
        self._limits = limits

    async def run(self) -> None:
        """Cleans until cancelled; retries while PostgreSQL is unavailable."""
        await run_forever(self._step, called="log_cleanup", ending_by=self._clock)

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
        if self._limits is not None:
            quotas = (await self._limits()).items()
            await self._empty({name: each[Quota.LOGS] for name, each in quotas if Quota.LOGS in each})
        return removed

    async def _empty(self, limits: Mapping[str, int]) -> None:
        """Empties logs of ended runs, the oldest first, until each namespace has at most its limit in bytes."""
        if not limits:
            return
        found: dict[str, list[RunLog]] = {}
        for each in await asyncio.to_thread(self._files.logs):
            if (namespace := each.run.partition(".")[0]) in limits:
                found.setdefault(namespace, []).append(each)
        for namespace, logs in found.items():
            over = sum(each.bytes for each in logs) - limits[namespace]
            if over <= 0:
                continue
            active: set[str] = set()
            for start in range(0, len(logs), _BATCH):
                active |= set(await self._archive.active_runs([each.run for each in logs[start : start + _BATCH]]))
            emptied = oldest_until(over, (each for each in logs if each.run not in active))
            why = f"the logs of namespace {namespace} had more than its quota {Quota.LOGS}, {limits[namespace]} bytes"
            await asyncio.to_thread(self._files.empty_logs, emptied, why)
            if emptied:
                log.info("log_cleanup.emptied", namespace=namespace, logs=len(emptied), limit=limits[namespace])

    async def _step(self) -> float:
        await self.run_once()
        return _EVERY

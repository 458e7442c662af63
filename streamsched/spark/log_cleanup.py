"""Removes the files of runs that are neither live nor in the history from the disk of this host, and empties logs where
those of a namespace together are larger than its quota `log_bytes`: of the runs that ended first.

Every launcher cleans the folder its runners write to; several on one host may run at a time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import Limits
from streamsched.emit.spooled_file import REFUSED
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.spark.files import FOLDERS, LOGS, RunFiles, run_of
from streamsched.spark.run_log import empty_log
from streamsched.store.jobs.archive import Archive

log = structlog.get_logger()

#: Seconds between two passes.
_EVERY: Final = 3600.0
#: Runs looked up in one query.
_BATCH: Final = 1000
#: Bytes on the disk of a log that is emptied: a block with the note that says so.
_NOTE: Final = 4096


@dataclass(frozen=True, slots=True)
class RunLog:
    """The log of a run on the disk of this host: how much it takes there, and when it was last written (seconds since
    1970).
    """

    run: str
    bytes: int
    at: float


class RunFileStore:
    """The files that runs leave in a data directory of this host; those that are not named after a run are ignored. The
    calls block on the disk: use a thread.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def untouched_runs(self, since: datetime) -> Sequence[str]:
        """Runs with files here, none of which was modified since then (UTC, by this host's clock)."""
        touched: dict[str, float] = {}
        for run, at in self._files():
            touched[run] = max(at, touched.get(run, at))
        limit = since.astimezone(UTC).timestamp()
        return [run for run, at in touched.items() if at < limit]

    def clear(self, runs: Sequence[str]) -> int:
        """Removes all files of these runs; returns how many. Idempotent."""
        removed = 0
        for run in runs:
            for path in RunFiles(self._data_dir, run).all:
                try:
                    path.unlink()
                except FileNotFoundError:
                    continue
                removed += 1
            shutil.rmtree(RunFiles(self._data_dir, run).event_log, ignore_errors=True)
            removed += _clear_refused(RunFiles(self._data_dir, run).spool)
        return removed

    def logs(self) -> Sequence[RunLog]:
        """The logs of all runs here."""
        return [
            RunLog(run, found.st_blocks * 512, found.st_mtime)
            for run, name, found in self._entries(LOGS)
            if name == RunFiles(self._data_dir, run).log.name
        ]

    def empty_logs(self, runs: Sequence[str], why: str) -> None:
        """Replaces the logs of these runs by a line that says how much was removed, and why. They have ended."""
        for run in runs:
            empty_log(RunFiles(self._data_dir, run).log, why)

    def _files(self) -> Iterator[tuple[str, float]]:
        """Run and time of the last write of each file."""
        return ((run, found.st_mtime) for folder in FOLDERS for run, _, found in self._entries(folder))

    def _entries(self, folder: str) -> Iterator[tuple[str, str, os.stat_result]]:
        """Run, name and state of each file of runs in one of the folders."""
        if not (self._data_dir / folder).is_dir():
            return
        with os.scandir(self._data_dir / folder) as entries:
            for entry in entries:
                run = run_of(entry.name)
                if run is None or not entry.is_file(follow_symlinks=False):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # its runner, or another launcher of this host, has just removed it
                    continue
                yield run, entry.name, found


def select_oldest(size: int, logs: Iterable[RunLog]) -> Sequence[str]:
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
        old = await asyncio.to_thread(self._files.untouched_runs, self._clock.now() - self._keep)
        removed = 0
        for start in range(0, len(old), _BATCH):
            batch = old[start : start + _BATCH]
            known = await self._archive.known_runs(batch)
            removed += await asyncio.to_thread(self._files.clear, [run for run in batch if run not in known])
        if removed:
            log.info("log_cleanup.passed", files=removed)
        if self._limits is not None:
            quotas = (await self._limits()).items()
            await self._empty_logs({name: each[Quota.LOGS] for name, each in quotas if Quota.LOGS in each})
        return removed

    async def _empty_logs(self, limits: Mapping[str, int]) -> None:
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
            emptied = select_oldest(over, (each for each in logs if each.run not in active))
            why = f"the logs of namespace {namespace} had more than its quota {Quota.LOGS}, {limits[namespace]} bytes"
            await asyncio.to_thread(self._files.empty_logs, emptied, why)
            if emptied:
                log.info("log_cleanup.emptied", namespace=namespace, logs=len(emptied), limit=limits[namespace])

    async def _step(self) -> float:
        await self.run_once()
        return _EVERY


def _clear_refused(spool: Path) -> int:
    """Deletes what was refused of a spool, and the folder with it unless events wait there. Returns the number of
    files.
    """
    try:
        refused = [path for path in spool.iterdir() if path.name.endswith(REFUSED)]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    for path in refused:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with suppress(OSError):
        spool.rmdir()
    return len(refused)

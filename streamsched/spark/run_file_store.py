"""The files that runs leave on the disk of this host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from streamsched.emit.spooled_file import REFUSED
from streamsched.spark.files import FOLDERS, LOGS, RunFiles, run_of
from streamsched.spark.run_log import empty_log


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

    def untouched(self, since: datetime) -> Sequence[str]:
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
                if run is not None and entry.is_file(follow_symlinks=False):
                    yield run, entry.name, entry.stat(follow_symlinks=False)


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

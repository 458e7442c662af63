"""Implements `ports.runner.RunFileStore` on a data directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from streamsched.emit.spooled_file import REFUSED
from streamsched.spark.files import FOLDERS, RunFiles, run_of


class LocalRunFileStore:
    """See `ports.runner.RunFileStore`. Ignores files that are not named after a run."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def untouched(self, since: datetime) -> Sequence[str]:
        touched: dict[str, float] = {}
        for run, at in self._files():
            touched[run] = max(at, touched.get(run, at))
        limit = since.astimezone(UTC).timestamp()
        return [run for run, at in touched.items() if at < limit]

    def clear(self, runs: Sequence[str]) -> int:
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

    def _files(self) -> Iterator[tuple[str, float]]:
        """Run and time of the last write of each file."""
        for name in FOLDERS:
            folder = self._data_dir / name
            if not folder.is_dir():
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    run = run_of(entry.name)
                    if run is not None and entry.is_file(follow_symlinks=False):
                        yield run, entry.stat(follow_symlinks=False).st_mtime


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

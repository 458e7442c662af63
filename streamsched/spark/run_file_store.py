"""Implements `ports.runner.RunFileStore` on a data directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

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

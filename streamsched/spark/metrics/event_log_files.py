"""The event logs of a run's Spark applications, in a folder of the run: read while they grow, and deleted.

    <folder>/eventlog_v2_<application>/events_<n>_<application>     n from 1 on; only the last one grows

A file that has a successor is deleted when it has been read, so the folder holds about one file of each application;
unless they are kept, for others who read them, or for a runner that takes the run over and reads from the beginning.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.ports.clock import Clock
from streamsched.spark.metrics.event_log import EventLogSummary
from streamsched.spark.run_log import open_log

#: Most bytes of one application that one call reads.
_AT_ONCE: Final = 4 << 20
#: A line longer than this is skipped; those of tasks have about 5 KB, those of jobs seldom 1 MB.
_LONGEST_LINE: Final = 8 << 20
#: Applications of one run of which metrics are kept.
_MOST_APPLICATIONS: Final = 100
_FILE: Final = re.compile(r"events_(\d+)_")
_FOLDER: Final = "eventlog_v2_"


@dataclass(slots=True)
class _Application:
    """How far the log of one application was read: file, offset in it, and the beginning of a line."""

    summary: EventLogSummary
    number: int = 0
    offset: int = 0
    rest: bytes = b""
    skipping: bool = False
    behind: bool = False


class EventLogFiles:
    """Metrics from the files of Spark's event log, in a folder of the run, as `source.MetricsSource`."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        keep: bool = False,
        summary: Callable[[], EventLogSummary] = EventLogSummary,
    ) -> None:
        """Does no I/O. `keep`: no file is deleted before `close`. `summary`: makes that of each application."""
        self._folder = folder
        self._clock = clock
        self._keep = keep
        self._summary = summary
        self._applications: dict[str, _Application] = {}

    def read(self) -> RunMetrics | None:
        for folder in self._folders():
            if folder.name in self._applications or len(self._applications) < _MOST_APPLICATIONS:
                self._take(self._application(folder), folder)
        now = int(self._clock.now().timestamp() * 1000)
        known = [each.summary.metrics(now) for each in self._applications.values()]
        return RunMetrics.combine(known) if known else None

    def is_finished(self) -> bool:
        return not any(each.behind for each in self._applications.values())

    def pass_over(self) -> None:
        """Passes over what is there.

        Raises:
            OSError: it cannot be read.
        """
        for folder in self._folders():
            files = _files(folder)
            if files:
                at = self._application(folder)
                at.number = max(files)
                at.offset = files[at.number].stat().st_size

    def note_end(self) -> None:
        """Nothing: the log says itself when its application has ended."""

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        """Of the applications; without links, which may lead to the log of another run."""
        if self._folder.is_symlink():
            return []
        return sorted(each for each in self._folder.glob(f"{_FOLDER}*") if not each.is_symlink())

    def _application(self, folder: Path) -> _Application:
        if folder.name not in self._applications:
            self._applications[folder.name] = _Application(self._summary())
        return self._applications[folder.name]

    def _take(self, at: _Application, folder: Path) -> None:
        """Reads on, at most `_AT_ONCE` bytes."""
        files = _files(folder)
        room = _AT_ONCE
        at.behind = False
        for number in sorted(number for number in files if number >= at.number):
            if number > at.number:
                at.number, at.offset, at.rest, at.skipping = number, 0, b"", False
            room -= self._take_file(at, files[number], room)
            if room <= 0:
                at.behind = True
                return
            if number < max(files) and not self._keep:
                with suppress(OSError):  # only takes space
                    files[number].unlink()

    def _take_file(self, at: _Application, path: Path, room: int) -> int:
        file = open_log(path)
        try:
            content = os.pread(file, room, at.offset)
        finally:
            os.close(file)
        at.offset += len(content)
        *lines, rest = (at.rest + content).split(b"\n")
        for line in lines:
            if not at.skipping:
                at.summary.add(line)
            at.skipping = False
        if len(rest) > _LONGEST_LINE:
            at.skipping, rest = True, b""
        at.rest = rest
        return len(content)


def _files(folder: Path) -> Mapping[int, Path]:
    """The files of an application, by their number."""
    return {int(found[1]): path for path in folder.iterdir() if (found := _FILE.match(path.name))}


def remove_older(folder: Path, *, newest: int) -> None:
    """Deletes all files but so many of the newest of each application. For a log that others read from its end.

    Raises:
        OSError: the folder cannot be read.
    """
    for application in folder.glob(f"{_FOLDER}*"):
        files = _files(application)
        for number in sorted(files)[:-newest]:
            with suppress(OSError):  # at the next look
                files[number].unlink()

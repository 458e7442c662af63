"""The event logs of a run's Spark applications, in a folder of the run: read while they grow, and deleted.

    <folder>/eventlog_v2_<application>/events_<n>_<application>     n from 1 on; only the last one grows

A file that has a successor is deleted when it has been read, so the folder holds about one file of each application.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
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

    summary: EventLogSummary = field(default_factory=EventLogSummary)
    number: int = 0
    offset: int = 0
    rest: bytes = b""
    skipping: bool = False
    behind: bool = False


class EventLogFiles:
    """See `source.MetricsSource`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Does no I/O."""
        self._folder = folder
        self._clock = clock
        self._applications: dict[str, _Application] = {}

    def read(self) -> RunMetrics | None:
        for folder in sorted(each for each in self._folder.glob(f"{_FOLDER}*") if not each.is_symlink()):
            if folder.name in self._applications or len(self._applications) < _MOST_APPLICATIONS:
                self._take(self._applications.setdefault(folder.name, _Application()), folder)
        now = int(self._clock.now().timestamp() * 1000)
        known = [each.summary.metrics(now) for each in self._applications.values()]
        return RunMetrics.combined(known) if known else None

    def finished(self) -> bool:
        return not any(each.behind for each in self._applications.values())

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, at: _Application, folder: Path) -> None:
        """Reads on, at most `_AT_ONCE` bytes."""
        files = {int(found[1]): path for path in folder.iterdir() if (found := _FILE.match(path.name))}
        room = _AT_ONCE
        at.behind = False
        for number in sorted(number for number in files if number >= at.number):
            if number > at.number:
                at.number, at.offset, at.rest, at.skipping = number, 0, b"", False
            room -= self._take_file(at, files[number], room)
            if room <= 0:
                at.behind = True
                return
            if number < max(files):
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


def event_log_settings(folder: Path) -> dict[str, str]:
    """Spark's settings for such a log. A small buffer and no compression, so that it is read while tasks end.

    Memory is read each second: Spark's default reads it at heartbeats only, and tasks of less than 10 s report none.
    """
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.buffer.kb": "1",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "16m",
        "spark.executor.metrics.pollingInterval": "1s",
    }

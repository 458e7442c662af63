"""Checks of the machine on which a process runs: room on its disks, and memory."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from streamsched.admin.checks.check_result import CheckLevel, CheckResult
from streamsched.process.memory import available_memory

#: Shares and bytes that are left, below which a disk or the memory is short, and below which it is full.
_SHORT: Final = 0.05
_FULL: Final = 0.01
_SHORT_BYTES: Final = 1 << 30
_FULL_BYTES: Final = 100 << 20
#: Least bytes of memory for one more program.
_SHORT_MEMORY: Final = 512 << 20


class Disk(NamedTuple):
    """What is left on a file system, and what it holds; inodes are 0 of 0 where it has no bound."""

    free: int
    size: int
    free_inodes: int
    inodes: int


def host_checks(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """The disks of the data folder and of temporary files, each file system once, and the memory."""
    known: set[int] = set()
    for folder in (Path(environ.get("STREAMSCHED_DATA_DIR") or ".streamsched"), Path(tempfile.gettempdir())):
        there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
        try:
            device, facts = there.stat().st_dev, os.statvfs(there)
        except OSError as exc:
            yield CheckResult(f"disk of {there}", CheckLevel.FAILED, str(exc), "mend or mount it")
            continue
        if device not in known:
            known.add(device)
            yield check_disk(
                str(there),
                Disk(facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize, facts.f_favail, facts.f_files),
            )
    memory = available_memory()
    if memory is not None:
        level = CheckLevel.OK if memory >= _SHORT_MEMORY else CheckLevel.WARNING
        advice = "" if level is CheckLevel.OK else "give it more, or let fewer programs run here at a time"
        yield CheckResult("memory", level, f"{memory / 1e6:.0f} MB are available on {socket.gethostname()}", advice)


def check_disk(place: str, disk: Disk) -> CheckResult:
    """A full one fails: runs could write neither logs nor data, and PostgreSQL stops."""
    kinds = ((disk.free, disk.size, _SHORT_BYTES, _FULL_BYTES), (disk.free_inodes, disk.inodes, 1000, 100))
    level = CheckLevel.OK
    for free, size, short, full in kinds:
        if not size:
            continue
        if free < min(full, size * _FULL) or not free:
            level = CheckLevel.FAILED
        elif free < min(short, size * _SHORT) and level is CheckLevel.OK:
            level = CheckLevel.WARNING
    found = f"{disk.free / 1e6:.0f} of {disk.size / 1e6:.0f} MB are free on {socket.gethostname()}"
    if disk.inodes:
        found += f", {disk.free_inodes} of {disk.inodes} inodes"
    advice = "" if level is CheckLevel.OK else "delete files there, shorten the retention of logs, or give it more room"
    return CheckResult(f"disk of {place}", level, found, advice)

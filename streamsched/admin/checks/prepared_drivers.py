"""The prepared Spark drivers on this machine, and what they hold in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MODULE: Final = b"streamsched.spark.calls.prepared_driver"
#: Of the fields after the name in `/proc/<pid>/stat`: the parent.
_PARENT: Final = 1


@dataclass(frozen=True, slots=True)
class PreparedMemory:
    """Resident bytes.

    Attributes:
        drivers: how many there are, those that a run has been given included.
        python, java: of their processes; what a run has forked from its driver included.
    """

    drivers: int
    python: int
    java: int


def prepared_memory(proc: Path = Path("/proc")) -> PreparedMemory | None:
    """None where there is no `/proc`. A driver's JVM is its child, and so are copies of it that a run executes in."""
    if not (proc / "self").exists():
        return None
    processes = list(_processes(proc))
    ours = {pid: parent for pid, parent, command, _ in processes if _MODULE in command}
    python = sum(size for pid, _, _, size in processes if pid in ours)
    java = sum(size for pid, parent, _, size in processes if parent in ours and pid not in ours)
    return PreparedMemory(sum(parent not in ours for parent in ours.values()), python, java)


def _processes(proc: Path) -> Iterator[tuple[int, int, list[bytes], int]]:
    """Id, parent, command and resident bytes of each process that is still there."""
    for folder in proc.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[_PARENT])
            status = (folder / "status").read_text()
            size = int(status.partition("VmRSS:")[2].split()[0]) * 1024
            yield int(folder.name), parent, (folder / "cmdline").read_bytes().split(b"\0"), size

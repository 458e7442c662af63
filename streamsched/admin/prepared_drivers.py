"""The prepared Spark drivers on this machine, and what they hold in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MODULE: Final = b"streamsched.spark.calls.prepared_driver"
#: Of the fields after the name in `/proc/<pid>/stat`: the session.
_SESSION: Final = 3


@dataclass(frozen=True, slots=True)
class PreparedMemory:
    """Resident bytes.

    Attributes:
        drivers: how many there are, those that a run has been given included.
        python, java: of their processes.
    """

    drivers: int
    python: int
    java: int


def prepared_memory(proc: Path = Path("/proc")) -> PreparedMemory | None:
    """None where there is no `/proc`. Each driver is the leader of a session, in which its JVM is too."""
    if not (proc / "self").exists():
        return None
    processes = list(_processes(proc))
    sessions = {pid for pid, _, command, _ in processes if _MODULE in command}
    python = java = 0
    for _, session, command, size in processes:
        if session in sessions:
            is_java = command[0].endswith(b"java")
            java, python = java + size * is_java, python + size * (not is_java)
    return PreparedMemory(len(sessions), python, java)


def _processes(proc: Path) -> Iterator[tuple[int, int, list[bytes], int]]:
    """Id, session, command and resident bytes of each process that is still there."""
    for folder in proc.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            session = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[_SESSION])
            status = (folder / "status").read_text()
            size = int(status.partition("VmRSS:")[2].split()[0]) * 1024
            yield int(folder.name), session, (folder / "cmdline").read_bytes().split(b"\0"), size

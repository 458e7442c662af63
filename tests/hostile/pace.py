"""How much of the machine other processes leave: limits in seconds are for a machine of our own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

#: Limits are stretched no further than this.
SLOWEST: Final = 12.0


@dataclass(slots=True)
class Pace:
    """Attributes:
    postmaster: the file with the process id of our PostgreSQL, which is no child of this process.
    """

    postmaster: Path
    _total: float = field(init=False)
    _idle: float = field(init=False)
    _ours: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """From here on it counts."""
        self._total, self._idle = _machine_s()
        self._ours = self._ours_s()

    def factor(self) -> float:
        """How many times as long as on an idle machine anything may take, counted since `begin`; at least 1."""
        total, idle = _machine_s()
        spent = max(total - self._total, 0.001)
        others = max(0.0, spent - (idle - self._idle) - max(0.0, self._ours_s() - self._ours))
        return min(SLOWEST, 1 / max(1 - others / spent, 0.01))

    def _ours_s(self) -> float:
        roots = [psutil.Process()]
        with suppress(OSError, ValueError, psutil.Error):
            roots.append(psutil.Process(int(self.postmaster.read_text().splitlines()[0])))
        spent = 0.0
        for root in roots:
            for process in (root, *_below(root)):
                try:
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                spent += times.user + times.system + times.children_user + times.children_system
        return spent


def _below(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.Error:
        return []


def _machine_s() -> tuple[float, float]:
    """Seconds of all processors so far, those that other machines took included, and those in which one of them had
    nothing to do.
    """
    times = psutil.cpu_times()
    idle = times.idle + times.iowait
    return times.user + times.nice + times.system + times.steal + idle, idle

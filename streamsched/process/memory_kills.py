"""How many processes the kernel has killed for memory in the control group of this process (cgroup v2)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def memory_kills(groups: Path = _GROUPS, own: Path = _OWN) -> int | None:
    """The counter `oom_kill` of this process's group; None where there is none that can be read."""
    try:
        group = next(line[3:] for line in own.read_text("utf-8").splitlines() if line.startswith("0::"))
        events = (groups / group.strip().lstrip("/") / "memory.events").read_text("utf-8")
        return int(next(line.split()[1] for line in events.splitlines() if line.startswith("oom_kill ")))
    except (OSError, StopIteration, ValueError, IndexError):
        return None

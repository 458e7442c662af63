"""Memory: settings of the garbage collector and of the C library's allocator for a process that runs shards or
launches, and what the machine has left.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from pathlib import Path
from typing import Final

#: The heap is full of long-lived events and states, and with Python's default thresholds garbage collection takes two
#: fifths of the CPU under load.
_GC_THRESHOLDS: Final = (50_000, 20, 100)
#: Parameters of glibc's `mallopt` and their values. By default glibc raises both thresholds to 32 and 64 MiB once a
#: large block was freed, and each thread may open an arena of its own: after one event of 4 MB a launcher kept 130 MB
#: that it no longer used. With fixed thresholds, freed blocks of 256 KiB and more are the system's again at once.
_MALLOC: Final = {-1: 256 << 10, -3: 256 << 10, -8: 2}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD (bytes), M_ARENA_MAX


def configure_memory() -> None:
    """Sets both for this process; where the C library is not glibc, the garbage collector only."""
    gc.set_threshold(*_GC_THRESHOLDS)
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOC.items():
            mallopt(parameter, value)


def freeze_objects() -> None:
    """Lets garbage collections pass over all objects that there are now. For a process that has started: they last as
    long as it does.
    """
    gc.collect()
    gc.freeze()


def available_memory() -> int | None:
    """Bytes that processes of this machine may still take; None where that is unknown."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None

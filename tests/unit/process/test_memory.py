"""What a process frees goes back to the system, also when something small was allocated after it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

GLIBC = platform.libc_ver()[0] == "glibc"
PROGRAM = """
import sys, psutil
from streamsched.process.memory import configure_memory

if sys.argv[1] == "configured":
    configure_memory()
megabytes = lambda: psutil.Process().memory_info().rss / 2**20
del bytearray(b"x" * (20 << 20))[:]  # by default, glibc keeps blocks of this size from now on
before = megabytes()
blocks, small = [], []
for _ in range(300):
    blocks.append(b"x" * 400_000)
    small.append(b"x" * 2_000)
blocks.clear()
print(megabytes() - before)
"""


@pytest.mark.parametrize(("setting", "kept"), [("configured", False), ("default", True)] if GLIBC else [])
def test_memory_a_process_keeps_of_large_blocks_it_freed(setting: str, kept: bool) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, setting], capture_output=True, text=True, check=True)
    assert (float(done.stdout) > 15) == kept, done.stdout

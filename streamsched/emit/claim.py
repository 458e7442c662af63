"""Claims: one process at a time has a file, and a process that dies has none.

A claim is a kernel lock (`flock`) on the file's inode, so SIGKILL frees it and nobody has to guess whether a process id
is still alive. POSIX, on local filesystems.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(path: Path, *, create: bool = False, wait: bool = False) -> Iterator[int | None]:
    """Holds the file while the block runs; gives its descriptor, or None when it is not there (and not to `create`), or
    another holder has it (and this one does not `wait` until that ends).

    The holder may delete or rename the file; whoever waited for it will then not mistake the dead inode for the path.
    """
    descriptor = _claim(path, create, wait)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _claim(path: Path, create: bool, wait: bool) -> int | None:
    flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
    while True:
        try:
            descriptor = os.open(path, flags, 0o644)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

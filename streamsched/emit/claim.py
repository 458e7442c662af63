"""Exclusive claims on files, released when the process ends.

A claim is a kernel lock (`flock`) on the file's inode, so SIGKILL releases it without a check of process ids. Needs
POSIX and a local filesystem. A link, a pipe and whatever else is no regular file cannot be claimed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: How `open` refuses to open a link, a folder or a socket for writing.
_NOT_REGULAR: Final = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})


@contextmanager
def hold_claim(path: Path, *, create: bool = False, wait: bool = False) -> Iterator[int | None]:
    """Holds a claim on the file during the block. Yields its descriptor, or None when the file does not exist (without
    `create`) or another process holds it (without `wait`).

    The holder may delete or rename the file; a waiting process detects that and opens the path again.
    """
    descriptor = _claim(path, create, wait)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _claim(path: Path, create: bool, wait: bool) -> int | None:
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    while True:
        try:
            descriptor = os.open(path, flags, 0o644)
        except FileNotFoundError:
            return None
        except OSError as exc:
            if exc.errno in _NOT_REGULAR:
                return None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
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
        at_path = path.lstat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (at_path.st_dev, at_path.st_ino) == (held.st_dev, held.st_ino)

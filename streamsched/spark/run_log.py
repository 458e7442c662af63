"""The log of a run: made for its user only, read as a regular file only, and bounded while it grows.

A log that outgrows its limit loses its middle: the kernel frees those blocks (a hole in the file), so neither what the
program writes nor the offsets of readers are touched. A reader finds a line there that says how much was left out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from streamsched.process.os_user import OsUser, give

log = structlog.get_logger()

#: Bytes at the beginning of a log that are kept besides its end.
HEAD: Final = 64 * 1024
_TAIL: Final = 64 * 1024
#: Of `fallocate`: FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE.
_PUNCH: Final = 0x01 | 0x02
_BLOCK: Final = 512
_CAN_PUNCH: Final = sys.platform == "linux"


def create_log(path: Path, user: OsUser | None = None) -> None:
    """Makes the log, readable for its owner only: this process's user, or `user`. Keeps one that exists.

    Raises:
        OSError: it cannot be made; or there is a link in its place.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        give(descriptor, user)
    finally:
        os.close(descriptor)


def open_log(path: Path) -> int:
    """A descriptor that reads the log, where it is a regular file with one name in a folder that is no link: a program
    may have put something else in its place.

    Raises:
        OSError: it is not, or it cannot be read.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is no regular file of its own", str(path))
    return descriptor


def read_part(path: Path, offset: int, most: int) -> tuple[bytes, int]:
    """Bytes of the log from `offset` on, at most `most`, and the offset after them. Where bytes were left out, the line
    that says so, and the offset after them.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = open_log(path)
    try:
        size = os.fstat(descriptor).st_size
        begin = min(offset, size)
        data = _data(descriptor, begin, size)
        if data > begin:
            return _omission_text(data - begin), data
        content = os.pread(descriptor, min(most, _hole(descriptor, begin, size) - begin), begin)
        return content, begin + len(content)
    finally:
        os.close(descriptor)


def read_end(path: Path, most: int = _TAIL) -> tuple[bytes, int]:
    """The last bytes of the log, at most `most`, and the offset after them. Where bytes were left out before them and
    not more than these follow, the line that says so comes first.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = open_log(path)
    try:
        size = os.fstat(descriptor).st_size
        begin, data = 0, _data(descriptor, 0, size)
        while (hole := _hole(descriptor, data, size)) < size:
            begin, data = hole, _data(descriptor, hole, size)
        start = max(data, size - most)
        content = os.pread(descriptor, size - start, start)
        note = _omission_text(data - begin) if begin < data == start else b""
        return note + content, start + len(content)
    finally:
        os.close(descriptor)


def end_of(path: Path) -> str:
    """The last 64 KiB of a log; "" if it cannot be read."""
    try:
        return read_end(path)[0].decode(errors="replace")
    except OSError:
        return ""


def empty_log(path: Path, why: str) -> None:
    """Replaces what the log of an ended run holds by a line that says so, where it is a regular file with one name."""
    try:
        os.close(open_log(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        log.warning("run.log_not_emptied", log=str(path), reason=str(exc))
        return
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"[{found.st_size} bytes of this log were removed: {why}]\n".encode(), 0)
            os.utime(descriptor, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(descriptor)


class LogBound:
    """Keeps the log of one run within `limit` bytes of disk: its beginning, and the newest half of the limit. Does
    nothing where the file system cannot free blocks within a file; says so once.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._descriptor = -1
        self._able = _CAN_PUNCH
        self.left_out = 0

    def keep(self) -> None:
        """Frees the middle when the log has outgrown the limit. Does not block for long."""
        if not self._able:
            return
        try:
            if self._descriptor >= 0 and not os.fstat(self._descriptor).st_nlink:
                self.close()  # another file has become the log
            if self._descriptor < 0:
                os.close(open_log(self._path))
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(self._descriptor)
            if found.st_blocks * _BLOCK > self._limit:
                self._free(found.st_size, max(found.st_blksize, 4096))
        except FileNotFoundError:
            return
        except OSError as exc:
            self._able = False
            log.warning("run.log_not_bounded", log=str(self._path), reason=str(exc))

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _free(self, size: int, block: int) -> None:
        begin = -(-HEAD // block) * block
        end = (size - self._limit // 2) // block * block
        if end <= begin:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        length = ctypes.c_int64(end - begin)
        if libc.fallocate(self._descriptor, _PUNCH, ctypes.c_int64(begin), length):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        if not self.left_out:
            log.warning("run.log_cut", log=str(self._path), limit=self._limit)
        self.left_out = end - begin


def _data(descriptor: int, at: int, size: int) -> int:
    """Where the next data begins, from `at` on; `size` when only a hole follows."""
    with suppress(OSError):
        return min(size, os.lseek(descriptor, at, os.SEEK_DATA))
    return size


def _hole(descriptor: int, at: int, size: int) -> int:
    """Where the next hole begins, from `at` on; `size` without one."""
    with suppress(OSError):
        return min(size, os.lseek(descriptor, at, os.SEEK_HOLE))
    return size


def _omission_text(length: int) -> bytes:
    return f"\n[{length} bytes of this log were left out: STREAMSCHED_LOG_LIMIT]\n".encode()

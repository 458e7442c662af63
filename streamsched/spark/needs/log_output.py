"""Where a run's processes write: its log, directly, or through a thread that keeps the values of secrets out of it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import BinaryIO, Final

from streamsched.secrets.redaction import Redaction

_CHUNK: Final = 64 * 1024
#: Seconds in which what the ended processes wrote last is read.
_LAST: Final = 10.0


class LogOutput:
    """The log of a run, open for its processes until `close`.

    Raises:
        OSError: the log cannot be opened.
    """

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._file = path.open("ab", buffering=0)
        self._thread: threading.Thread | None = None
        if redaction.is_empty:
            self._written = os.dup(self._file.fileno())
            return
        read, self._written = os.pipe()
        self._thread = threading.Thread(target=_copy, args=(read, self._file, redaction), daemon=True)
        self._thread.start()

    @property
    def is_copied(self) -> bool:
        """Whether the output gets into the log through this process."""
        return self._thread is not None

    def fileno(self) -> int:
        """The descriptor for the processes."""
        return self._written

    def close_own_copy(self) -> None:
        """Closes this process's copy of the descriptor: the end of the processes is the end of the output."""
        if self._written >= 0:
            os.close(self._written)
            self._written = -1

    async def close(self) -> None:
        """Returns when all output is in the log. A process that has left the session of the run may still hold the
        descriptor; it is not waited for longer than some seconds.
        """
        self.close_own_copy()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _LAST)
        self._file.close()


def _copy(read: int, log: BinaryIO, redaction: Redaction) -> None:
    """Copies until the end; goes on reading when the log cannot be written, so that the processes are not held up."""
    while chunk := os.read(read, _CHUNK):
        _write(log, redaction.feed(chunk))
    _write(log, redaction.end())
    os.close(read)


def _write(log: BinaryIO, chunk: bytes) -> None:
    try:
        view = memoryview(chunk)
        while view:
            view = view[log.write(view) or 0 :]
    except (OSError, ValueError):  # a full disk; closed already
        return

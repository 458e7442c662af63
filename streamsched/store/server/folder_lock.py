"""The lock on a data folder, which the process of `streamsched dev` holds while it runs there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError
from streamsched.process.os_user import private_folder

#: The name of its file in the folder.
LOCK: Final = "lock"


@contextmanager
def folder_lock(
    folder: Path, *, instead: str = "use it, stop it, or name another folder by --data-dir"
) -> Iterator[None]:
    """Holds the lock, which the operating system releases when this process ends. Makes the folder if it is missing.
    `instead`: what a person does who finds it held.

    Raises:
        ConfigurationError: another process holds it, or the folder cannot be created.
    """
    try:
        private_folder(folder)
        lock = (folder / LOCK).open("a+")
        os.fchmod(lock.fileno(), 0o600)
    except OSError as exc:
        raise ConfigurationError(f"{folder} cannot be used: {exc.strerror}; name another by --data-dir") from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise ConfigurationError(
                f"`streamsched dev` already runs in {folder} (process {owner}); {instead}"
            ) from exc
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield

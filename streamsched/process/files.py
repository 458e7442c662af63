"""Writes files atomically and durably."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


@contextmanager
def write_atomically(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the context ends, after its content is on the disk. The replacement itself is
    durable after `sync_folder` of the parent folder. `private`: only its owner reads it.

    Raises:
        OSError: writing failed; `path` is unchanged and the temporary file is removed.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        if private:
            beside.unlink(missing_ok=True)
            beside.touch(mode=0o600)
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def create_atomically(path: Path, content: bytes) -> bool:
    """Creates a file with its whole content at once, durably; False if there is one, with whatever content.

    Raises:
        OSError: it cannot be written, or the filesystem has no hard links.
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
        sync_folder(path.parent)
    except FileExistsError:
        return False
    finally:
        beside.unlink(missing_ok=True)
    return True


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, as fsync does for the content of a file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

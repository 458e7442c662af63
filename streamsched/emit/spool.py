"""Events on disk while the server is unreachable: a folder of append-only files, one per process.

A file has one event per line in native JSON, fsync'd before `keep` returns. A process that drains claims each file
first (`claim`), so no two processes send the same file at once. If it dies, the next one sends the file again from its
start, and the server recognises duplicates by their ids. Events of one key keep their order: a file that another
process is sending blocks only events of the same keys. An incomplete last line is left by a crash before `keep`
returned; it is skipped.

    <ms since the epoch>-<pid>-<random>.events      spooled; drained oldest first
    <same>.events.refused                           lines that were refused for good, with reasons
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence, Set
from pathlib import Path
from typing import Final
from uuid import uuid4

from streamsched.codec import event as codec
from streamsched.domain.errors import Refusal
from streamsched.domain.events.event import Event
from streamsched.emit.claim import hold_claim
from streamsched.emit.spooled_file import SpooledFile, read_spooled, settle_spooled
from streamsched.ports.clock import Clock
from streamsched.process.files import sync_folder

KEPT: Final = ".events"

#: Size in bytes at which a new file is started.
_FULL: Final = 4 << 20


class Spool:
    """A folder of spooled events, for any number of processes. Within a process, one thread at a time may call `keep`;
    another may drain meanwhile, because claims also exclude threads.
    """

    def __init__(self, folder: Path, clock: Clock, *, owner: int | None = None) -> None:
        """`owner`: the user id that its files must have to be sent; None: any."""
        self.folder = folder
        self._owner = owner
        self._clock = clock
        self._path: Path | None = None
        self._named_at = 0  # ms since the epoch

    def is_empty(self) -> bool:
        """Whether no events are spooled, claimed or not."""
        return not self._files()

    def keep(self, events: Sequence[Event]) -> None:
        """Appends the events durably.

        Raises:
            OSError: the write failed; none of the events is spooled.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = b"".join(codec.encode(event) + b"\n" for event in events)
        while True:
            path, fresh = (self._path, False) if self._path and _has_room(self._path) else (self._name(), True)
            with hold_claim(path, create=fresh) as descriptor:
                if descriptor is not None:
                    _append(descriptor, lines)
                    break
            self._path = None  # being drained: start a new file
        self._path = path
        if fresh:
            sync_folder(self.folder)

    def has_of(self, keys: Set[str]) -> bool:
        """Whether an event with one of these keys may be spooled, claimed or not."""
        read = (read_spooled(path, self._owner) for path in self._files())
        return any(kept.more or not keys.isdisjoint(kept.keys) for kept in read if kept is not None)

    def claims(self, most: int | None = None) -> Generator[SpooledFile, None, None]:
        """Claims files one after another, oldest first, of the first `most` of the folder; each is claimed until the
        next is asked for, by when it is settled. Passes over a file that another process has claimed, and over files
        with events of the same keys. A file with a rest comes again.

        Raises:
            OSError: the folder or a file cannot be read.
        """
        before: set[str] = set()
        for path in self._files()[:most]:
            while True:
                with hold_claim(path) as descriptor:
                    kept = read_spooled(path, self._owner)
                    if kept is None:
                        break
                    if kept.unfit or (descriptor is not None and before.isdisjoint(kept.keys)):
                        yield kept
                        if kept.more:
                            continue
                        break
                if kept.more:  # which keys follow is unknown
                    return
                before |= kept.keys
                break

    def settle(self, kept: SpooledFile, left: Sequence[Event], refused: Sequence[Refusal]) -> None:
        """Settles a claimed file (`settle_spooled`), durably."""
        settle_spooled(kept, left, refused)
        sync_folder(self.folder)

    def _files(self) -> list[Path]:
        """Oldest first."""
        try:
            return sorted(path for path in self.folder.iterdir() if path.name.endswith(KEPT))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _name(self) -> Path:
        """A name that sorts after all earlier names of this spool, also within one millisecond."""
        self._named_at = max(int(self._clock.now().timestamp() * 1000), self._named_at + 1)
        return self.folder / f"{self._named_at:013d}-{os.getpid()}-{uuid4().hex[:8]}{KEPT}"


def _has_room(path: Path) -> bool:
    try:
        return path.stat().st_size < _FULL
    except FileNotFoundError:
        return False


def _append(descriptor: int, lines: bytes) -> None:
    before = os.fstat(descriptor).st_size
    try:
        view = memoryview(lines)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise

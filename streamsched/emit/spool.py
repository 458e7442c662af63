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
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson

from streamsched.codec import event as codec
from streamsched.domain.errors import DecodeError, Refusal
from streamsched.domain.events.event import Event
from streamsched.emit.claim import claimed
from streamsched.ports.clock import Clock
from streamsched.process.files import sync_folder

KEPT: Final = ".events"
REFUSED: Final = ".refused"

#: Size in bytes at which a new file is started; a file is read into memory as a whole.
_FULL: Final = 4 << 20
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)  # unused default: every spooled event has a time


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A claimed file: its events in the order they were spooled, and its undecodable lines."""

    path: Path
    events: tuple[Event, ...]
    unreadable: tuple[tuple[bytes, DecodeError], ...]

    @property
    def keys(self) -> frozenset[str]:
        """The event keys in the file."""
        return frozenset(event.key for event in self.events)


class Spool:
    """A folder of spooled events, for any number of processes. Within a process, one thread at a time may call `keep`;
    another may drain meanwhile, because claims also exclude threads.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._path: Path | None = None
        self._named_at = 0  # ms since the epoch

    def empty(self) -> bool:
        """Whether no events are spooled, claimed or not."""
        return next(self.folder.glob(f"*{KEPT}"), None) is None

    def keep(self, events: Sequence[Event]) -> None:
        """Appends the events durably.

        Raises:
            OSError: the write failed; none of the events is spooled.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = b"".join(codec.encode(event) + b"\n" for event in events)
        while True:
            path, fresh = (self._path, False) if self._path and _has_room(self._path) else (self._name(), True)
            with claimed(path, create=fresh) as descriptor:
                if descriptor is not None:
                    _append(descriptor, lines)
                    break
            self._path = None  # being drained: start a new file
        self._path = path
        if fresh:
            sync_folder(self.folder)

    def has_of(self, keys: Set[str]) -> bool:
        """Whether an event with one of these keys is spooled, claimed or not."""
        return any(not keys.isdisjoint(kept.keys) for kept in map(_read, self._files()) if kept is not None)

    @contextmanager
    def oldest(self) -> Iterator[SpooledFile | None]:
        """Claims, during the block, the oldest unclaimed file that shares no event key with an older file; yields None
        when there is none.
        """
        before: set[str] = set()
        for path in self._files():
            with claimed(path) as descriptor:
                kept = _read(path)
                if kept is not None and descriptor is not None and before.isdisjoint(kept.keys):
                    yield kept
                    return
                before |= frozenset() if kept is None else kept.keys
        yield None

    def settle(self, kept: SpooledFile, left: Sequence[Event], refused: Sequence[Refusal]) -> None:
        """Moves refused events and undecodable lines to the `.refused` file, keeps the events that are left, and
        deletes the file if there are none.
        """
        dropped = [_refused_line(line, exc.path, exc.reason) for line, exc in kept.unreadable]
        dropped += [_refused_line(codec.encode(kept.events[bad.index]), bad.path, bad.reason) for bad in refused]
        if dropped:
            _write(kept.path.with_name(kept.path.name + REFUSED), dropped, "ab")
        if not left:
            kept.path.unlink()
        elif dropped or len(left) < len(kept.events):
            rest = kept.path.with_name(kept.path.name + ".rest")
            _write(rest, [codec.encode(event) for event in left], "wb")
            rest.replace(kept.path)
        sync_folder(self.folder)

    def _files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.folder.glob(f"*{KEPT}"))

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


def _write(path: Path, lines: Sequence[bytes], mode: str) -> None:
    with path.open(mode) as file:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> SpooledFile | None:
    """The file's content; None when another process has just deleted it."""
    try:
        *whole, _torn = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    events: list[Event] = []
    unreadable: list[tuple[bytes, DecodeError]] = []
    for line in whole:
        try:
            events.append(codec.decode(line, fallback_id="", fallback_time=_NEVER))
        except DecodeError as exc:
            unreadable.append((line, exc))
    return SpooledFile(path, tuple(events), tuple(unreadable))


def _refused_line(line: bytes, path: str, reason: str) -> bytes:
    return orjson.dumps({"path": path, "reason": reason, "event": line.decode(errors="replace")})

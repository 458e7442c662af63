"""Events kept on disk while the far end is away: a folder of append-only files, one per process.

A file is a sequence of lines, one event each in our native JSON, fsync'd before `keep` returns. Whoever drains claims a
file first (`claim`), so two drainers never send one file side by side, and a drainer that dies leaves the file to the
next: it is sent again from its start, and the far end recognises the ids it has seen. Events of one key stay in their
order: what another process is sending holds up what is of the same keys, and nothing else. A line without its line end
is what a crash left of a `keep` that never returned; it is nobody's loss and is skipped.

    <ms since the epoch>-<pid>-<random>.events      kept; drained oldest first
    <same>.events.refused                           lines the far end will never take, with its reasons
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
from streamsched.domain.event import Event
from streamsched.durable import sync_folder
from streamsched.emit.claim import claimed
from streamsched.ports.clock import Clock

KEPT: Final = ".events"
REFUSED: Final = ".refused"

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)  # what we wrote has a time


@dataclass(frozen=True, slots=True)
class Kept:
    """A claimed file's events, in the order they were kept, and the lines in it that are no events of ours."""

    path: Path
    events: tuple[Event, ...]
    unreadable: tuple[tuple[bytes, DecodeError], ...]

    @property
    def keys(self) -> frozenset[str]:
        """Whose order it has a part in."""
        return frozenset(event.key for event in self.events)


class Spool:
    """One folder of kept events. Safe for any number of processes; within one, for one thread at a time."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._path: Path | None = None

    def empty(self) -> bool:
        """Whether nothing is kept here, claimed or not."""
        return next(self._folder.glob(f"*{KEPT}"), None) is None

    def keep(self, events: Sequence[Event]) -> None:
        """Appends the events; they survive any crash once this returned.

        Raises:
            OSError: the disk refused; none of the events is kept.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = b"".join(codec.encode(event) + b"\n" for event in events)
        while True:
            path, fresh = (self._path, False) if self._path and self._path.exists() else (self._name(), True)
            with claimed(path, create=fresh) as descriptor:
                if descriptor is not None:
                    _append(descriptor, lines)
                    break
            self._path = None  # being drained: go on in a file of its own
        self._path = path
        if fresh:
            sync_folder(self._folder)

    def has_of(self, keys: Set[str]) -> bool:
        """Whether an event of one of these keys is kept here, claimed or not."""
        return any(not keys.isdisjoint(kept.keys) for kept in map(_read, self._files()) if kept is not None)

    @contextmanager
    def oldest(self) -> Iterator[Kept | None]:
        """Claims, for the time of the block, the oldest file that nobody has, and that has no event of a key of which
        an older file has one; None when there is none.
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

    def settle(self, kept: Kept, left: Sequence[Event], refused: Sequence[Refusal]) -> None:
        """Ends a claim: refused events and unreadable lines go beside, what is left stays; an empty file goes."""
        aside = [_told(line, exc.path, exc.reason) for line, exc in kept.unreadable]
        aside += [_told(codec.encode(kept.events[bad.index]), bad.path, bad.reason) for bad in refused]
        if aside:
            _write(kept.path.with_name(kept.path.name + REFUSED), aside, "ab")
        if not left:
            kept.path.unlink()
        elif aside or len(left) < len(kept.events):
            rest = kept.path.with_name(kept.path.name + ".rest")
            _write(rest, [codec.encode(event) for event in left], "wb")
            rest.replace(kept.path)
        sync_folder(self._folder)

    def _files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self._folder.glob(f"*{KEPT}"))

    def _name(self) -> Path:
        now = int(self._clock.now().timestamp() * 1000)
        return self._folder / f"{now:013d}-{os.getpid()}-{uuid4().hex[:8]}{KEPT}"


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


def _read(path: Path) -> Kept | None:
    """None when whoever had it was done with it just now."""
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
    return Kept(path, tuple(events), tuple(unreadable))


def _told(line: bytes, path: str, reason: str) -> bytes:
    return orjson.dumps({"path": path, "reason": reason, "event": line.decode(errors="replace")})

"""One file of a spool, read as if a stranger had written it: piece by piece, and only if it is a regular file of the
owner that it must have.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson

from streamsched.codec import event as codec
from streamsched.domain.errors import DecodeError, Refusal
from streamsched.domain.events.event import Event

REFUSED: Final = ".refused"

#: Bytes of whole lines that are read at once; of a longer line, so many. A line may be as long as a request by default.
_PIECE: Final = 4 << 20
_LONGEST_LINE: Final = 16 << 20
#: Bytes of a file; its rest is written anew after each piece.
_LARGEST: Final = 256 << 20
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)  # unused default: every spooled event has a time


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """The first events of a file in the order they were spooled, and the undecodable lines among them.

    Attributes:
        size: bytes of these lines; the rest of the file follows.
        more: whether there is a rest.
        unfit: why nothing of the file is read at all; "": it is read.
    """

    path: Path
    events: tuple[Event, ...] = ()
    unreadable: tuple[tuple[bytes, DecodeError], ...] = ()
    size: int = 0
    more: bool = False
    unfit: str = ""

    @property
    def keys(self) -> frozenset[str]:
        """The event keys of these events."""
        return frozenset(event.key for event in self.events)

    @property
    def dropped_lines(self) -> int:
        """Lines that are no events; 1 for a file that is not read."""
        return len(self.unreadable) + bool(self.unfit)


def read_spooled(path: Path, owner: int | None) -> SpooledFile | None:
    """The file's first piece; None when there is no such file any more. `owner`: the user id that it must have; None:
    any.

    Raises:
        OSError: it cannot be read.
    """
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            return SpooledFile(path, unfit="is no regular file")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        unfit = _unfit(found, owner)
        if unfit:
            return SpooledFile(path, unfit=unfit)
        piece = file.read(_PIECE)
        while b"\n" not in piece and len(piece) < min(found.st_size, _LONGEST_LINE):
            more = file.read(_PIECE)
            if not more:
                break
            piece += more
    size = piece.rfind(b"\n") + 1
    if not size and len(piece) >= _LONGEST_LINE:
        return SpooledFile(path, unfit=f"has a line of more than {_LONGEST_LINE} bytes")
    events: list[Event] = []
    unreadable: list[tuple[bytes, DecodeError]] = []
    for line in piece[:size].split(b"\n")[:-1]:
        try:
            events.append(codec.decode(line, fallback_id="", fallback_time=_NEVER))
        except DecodeError as exc:
            unreadable.append((line, exc))
    return SpooledFile(path, tuple(events), tuple(unreadable), size, more=found.st_size > len(piece))


def settle_spooled(kept: SpooledFile, left: Sequence[Event], refused: Sequence[Refusal]) -> None:
    """Moves refused events and undecodable lines to the file's `.refused` file, keeps the events that are left and the
    rest of the file, and deletes the file if there is nothing of it. An unfit file becomes the `.refused` file itself.

    Raises:
        OSError: the disk; the file is as it was, or all of this is done.
    """
    if kept.unfit:
        kept.path.rename(_free_name(kept.path))
        return
    dropped = [_refused_line(line, exc.path, exc.reason) for line, exc in kept.unreadable]
    dropped += [_refused_line(codec.encode(kept.events[bad.index]), bad.path, bad.reason) for bad in refused]
    if dropped:
        _append_refused(kept.path, dropped)
    if not left and not kept.more:
        kept.path.unlink(missing_ok=True)
    elif dropped or kept.more or len(left) < len(kept.events):
        _rewrite(kept, left)


def _unfit(found: os.stat_result, owner: int | None) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file"
    if found.st_size > _LARGEST:
        return f"is larger than {_LARGEST} bytes"
    if owner is None:
        return ""
    if found.st_nlink != 1:
        return "has another name elsewhere"
    return "" if found.st_uid == owner else f"belongs to user {found.st_uid}, not {owner}"


def _append_refused(path: Path, lines: Sequence[bytes]) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    beside = path.with_name(path.name + REFUSED)
    try:
        descriptor = os.open(beside, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            os.close(descriptor)
            raise OSError(f"{beside} is no file of this spool")
    except OSError:  # something else has that name
        descriptor = os.open(_free_name(path), flags | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        os.fsync(descriptor)


def _rewrite(kept: SpooledFile, left: Sequence[Event]) -> None:
    """The file, atomically, with these events and its rest; its owner stays."""
    rest = kept.path.with_name(f"{kept.path.name}.{uuid4().hex[:8]}.rest")
    try:
        with (
            os.fdopen(os.open(kept.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as old,
            os.fdopen(os.open(rest, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new,
        ):
            new.write(b"".join(codec.encode(event) + b"\n" for event in left))
            old.seek(kept.size)
            while chunk := old.read(1 << 20):
                new.write(chunk)
            new.flush()
            found = os.fstat(old.fileno())
            if found.st_uid != os.geteuid():
                os.fchown(new.fileno(), found.st_uid, found.st_gid)
            os.fsync(new.fileno())
        rest.replace(kept.path)
    except BaseException:
        rest.unlink(missing_ok=True)
        raise


def _free_name(path: Path) -> Path:
    """A name for what is refused that no other file has."""
    beside = path.with_name(path.name + REFUSED)
    return path.with_name(f"{path.name}.{uuid4().hex[:8]}{REFUSED}") if os.path.lexists(beside) else beside


def _refused_line(line: bytes, path: str, reason: str) -> bytes:
    return orjson.dumps({"path": path, "reason": reason, "event": line.decode(errors="replace")})

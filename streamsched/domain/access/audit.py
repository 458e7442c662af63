"""The audit: who requested which change. Its entries form a hash chain, so one that was changed, removed or inserted
later is found. Number and hash of the last one, its head, are kept beside the entries: none can be removed from the end
without it. The hash of the last entry, kept on another machine, proves the same against who owns the database. Entries
that were kept for their time leave from the beginning: the chain then begins with the hash of the last of them, and an
entry says which are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

#: The hash before the first entry.
ORIGIN: Final = bytes(32)
#: The action of an entry that says that those up to the number `upto` of its detail were kept for their time.
FORGET: Final = "forget"


class AuditEntry(NamedTuple):
    """One entry.

    Attributes:
        number: from 1, without gaps.
        action: method and pattern of the request's path.
        target: the request's path.
        detail: of a request: `query` and `address`; of its outcome: `request` (the number of its entry), `status`, and
            `reason` and the body's `sha256` and `bytes` where there is one.
        previous: the hash of the entry before.
    """

    number: int
    at: datetime
    caller: str
    action: str
    target: str
    detail: Mapping[str, Any]
    previous: bytes
    hash: bytes = b""

    def with_hash(self) -> AuditEntry:
        """With its hash."""
        return self._replace(hash=self.digest())

    def digest(self) -> bytes:
        """SHA-256 of the previous hash and of the entry as JSON with sorted names."""
        values = [
            self.number,
            self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            self.caller,
            self.action,
            self.target,
            self.detail,
        ]
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return sha256(self.previous + text.encode()).digest()


class AuditHead(NamedTuple):
    """The last entry that was appended; number 0: none yet."""

    number: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Intact:
    """All entries are as they were written.

    Attributes:
        entries: the number of the last one.
        last: its hash.
        removed: so many from the beginning were kept for their time and are gone.
    """

    entries: int
    last: bytes
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Tampered:
    """The first entry that is not as it was written."""

    number: int
    reason: str


def against_head(found: Intact, head: AuditHead | None, at_head: bytes) -> Intact | Tampered:
    """The verdict on entries that are in order, against the head as it was before they were read. `at_head`: the hash
    of the entry with the head's number.
    """
    if head is None:
        return Tampered(found.entries + 1, "the record of the last entry is missing")
    if found.entries < head.number:
        first = found.entries + 1
        which = f"all {head.number} entries" if first == 1 else f"entries {first} to {head.number}"
        return Tampered(first, f"{which} were removed")
    if head.number and at_head != head.hash:
        return Tampered(head.number, "it is not the entry that was appended last")
    return found


def verify(entries: Iterable[AuditEntry], before: Intact | None = None) -> Intact | Tampered:
    """Checks entries in order of their number; `before`: the verdict on those that precede them."""
    state = before or Intact(0, ORIGIN)
    for entry in entries:
        expected = state.entries + 1
        if entry.number != expected:
            return Tampered(expected, f"entry {expected} is missing; the next one is {entry.number}")
        if entry.previous != state.last:
            return Tampered(entry.number, "it does not follow the entry before it")
        if entry.digest() != entry.hash:
            return Tampered(entry.number, "its content has changed")
        state = Intact(entry.number, entry.hash, state.removed)
    return state


def says_removed(entry: AuditEntry, removed: int) -> bool:
    """Whether the entry says that those up to this number are gone."""
    return entry.action == FORGET and entry.detail.get("upto") == removed

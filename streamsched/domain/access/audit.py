"""The audit: who requested which change. Its entries form a hash chain, so one that was changed, removed or inserted
later is found. The hash of the last entry, kept elsewhere, proves that none was removed from the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

#: The hash before the first entry.
ORIGIN: Final = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
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

    def sealed(self) -> AuditEntry:
        """With its hash."""
        return replace(self, hash=self.digest())

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


@dataclass(frozen=True, slots=True)
class Intact:
    """All entries are as they were written. `last`: the hash of the last one."""

    entries: int
    last: bytes


@dataclass(frozen=True, slots=True)
class Tampered:
    """The first entry that is not as it was written."""

    number: int
    reason: str


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
        state = Intact(entry.number, entry.hash)
    return state

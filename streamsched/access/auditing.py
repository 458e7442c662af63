"""Recording requests in the audit: one entry before a change is carried out, and one with its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import structlog

from streamsched.domain.access.audit import AuditHead, Intact, Tampered, against_head, says_removed, verify
from streamsched.domain.errors import StreamschedError
from streamsched.ports.clock import Clock
from streamsched.store.audit import AuditStore

log = structlog.get_logger()

#: Entries that are read at once.
_READ: Final = 1000


class Audit(Protocol):
    """Records who requests which change."""

    async def request(self, caller: str, action: str, target: str, detail: Mapping[str, Any]) -> int | None:
        """Records a request before it is carried out. Returns the entry's number; None when nothing is recorded.

        Raises:
            UnavailableError: it cannot be recorded, so it must not be carried out.
        """
        ...

    async def outcome(self, number: int, caller: str, action: str, target: str, detail: Mapping[str, Any]) -> None:
        """Records the outcome of a request. When that is impossible, the log says so."""
        ...


class NoAudit:
    """Records nothing: an installation that is open to everybody does not know who requests a change."""

    async def request(self, caller: str, action: str, target: str, detail: Mapping[str, Any]) -> int | None:
        """Records nothing."""
        del caller, action, target, detail
        return None

    async def outcome(self, number: int, caller: str, action: str, target: str, detail: Mapping[str, Any]) -> None:
        """Records nothing."""
        del number, caller, action, target, detail


class StoredAudit:
    """Records in a store."""

    def __init__(self, store: AuditStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def request(self, caller: str, action: str, target: str, detail: Mapping[str, Any]) -> int | None:
        """Stores who asks for what, before it is done; returns the entry's number."""
        entry = await self._store.append(
            caller=caller, action=action, target=target, detail=detail, now=self._clock.now()
        )
        return entry.number

    async def outcome(self, number: int, caller: str, action: str, target: str, detail: Mapping[str, Any]) -> None:
        """Stores what became of the request with that number."""
        full = {"request": number, **detail}
        try:
            await self._store.append(caller=caller, action=action, target=target, detail=full, now=self._clock.now())
        except StreamschedError as exc:
            log.warning("audit.outcome_unrecorded", request=number, detail=dict(detail), error=str(exc))


async def verify_all(store: AuditStore) -> Intact | Tampered:
    """Checks the whole audit, in pages: that it begins where an entry says that those before were kept for their time,
    and reaches to its head.
    """
    while True:
        start = await store.start()
        if start is None:
            return Tampered(1, "the record of the first entry is missing")
        verdict = await _verify_after(store, start)
        if isinstance(verdict, Intact) or await store.start() == start:  # else retention went on meanwhile
            return verdict


async def _verify_after(store: AuditStore, start: AuditHead) -> Intact | Tampered:
    head, removed = await store.head(), start.number
    verdict: Intact | Tampered = Intact(removed, start.hash, removed)
    said = removed == 0
    while isinstance(verdict, Intact):
        found = await store.list_after(verdict.entries, limit=_READ)
        if not found:
            break
        said = said or any(says_removed(entry, removed) for entry in found)
        verdict = verify(found, verdict)
    if isinstance(verdict, Tampered):
        return verdict
    if not said:
        return Tampered(removed, "it was removed with those before it, and no entry says so")
    at_head = await store.list_after(head.number - 1, limit=1) if head is not None and head.number else ()
    return against_head(verdict, head, at_head[0].hash if at_head else b"")

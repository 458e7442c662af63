"""The store of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from streamsched.domain.access.audit import AuditEntry, AuditHead


class AuditStore(Protocol):
    """Append-only. Each method raises UnavailableError when the store cannot be reached."""

    async def append(
        self, *, caller: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
    ) -> AuditEntry:
        """Appends an entry behind the last one and returns it."""
        ...

    async def newest(self, *, before: int | None = None, caller: str = "", limit: int) -> Sequence[AuditEntry]:
        """Entries with a number below `before`, newest first; of this caller only, unless it is empty."""
        ...

    async def head(self) -> AuditHead | None:
        """The last entry that was appended, which is kept beside the entries; None: it was removed."""
        ...

    async def following(self, number: int, *, limit: int) -> Sequence[AuditEntry]:
        """Entries behind this number, oldest first."""
        ...

"""The history of jobs and runs by number, for readers that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamsched.domain.webhooks.change import WorkLine


class WorkHistory(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable. One reader, one object: `settled_number`
    remembers what it waits for.
    """

    async def settled_number(self) -> int:
        """The number up to which no line can appear any more: every transaction that may have taken a number up to it
        has ended. It grows while transactions end, also under load; one that stays open holds it. Never goes back.
        """
        ...

    async def read(self, after: int, upto: int, *, limit: int, whole: bool = False) -> Sequence[WorkLine]:
        """Lines with numbers above `after` and up to `upto`, which must be settled, in the order of their numbers: of
        jobs and runs, and with `whole` of expectations, and of schedules that paused themselves. Those that are older
        than the history is kept are missing.
        """
        ...

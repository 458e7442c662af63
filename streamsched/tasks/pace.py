"""The least time between two transactions of a loop while much is in flight: what is ready meanwhile shares one."""

from __future__ import annotations

import asyncio
from typing import Final

#: Deliveries in flight from which transactions share their work.
MANY: Final = 100
#: Least time from the begin of one transaction to the next (s).
SHARE_S: Final = 0.005


class TransactionPace:
    """Belongs to one loop of one event loop."""

    def __init__(self) -> None:
        self._began_s = 0.0

    async def keep(self, *, busy: bool) -> None:
        """Waits, if busy, until `SHARE_S` after the previous call returned; otherwise returns at once."""
        clock = asyncio.get_running_loop().time
        early_s = self._began_s + SHARE_S - clock()
        if busy and early_s > 0:
            await asyncio.sleep(early_s)
        self._began_s = clock()

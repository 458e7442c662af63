"""Waiting until the log has what a change wrote to the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from streamsched.domain.errors import UnavailableError
from streamsched.ports.bell import RELAYED, Bell
from streamsched.ports.outbox import Receipts

#: Seconds between looks when no bell rings.
_LOOK_AGAIN = 1.0


async def acknowledged(ids: Sequence[int], *, receipts: Receipts, bell: Bell, patience: float) -> None:
    """Returns when the log has acknowledged these records of the outbox.

    Raises:
        UnavailableError: it has not within `patience` seconds. The change stands and will reach the log.
    """
    if not ids:
        return
    try:
        async with asyncio.timeout(patience), bell.listen(RELAYED) as ring:
            while await receipts.outstanding(ids):
                await ring.wait(_LOOK_AGAIN)
    except TimeoutError as exc:
        raise UnavailableError(
            f"the change is stored, but the log has not taken it within {patience:g} s; it takes effect as soon as"
            " the relay reaches the log, and deploying it again waits for that"
        ) from exc

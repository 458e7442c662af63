"""Waits until the log has acknowledged a change's outbox records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Final

from streamsched.domain.errors import UnavailableError
from streamsched.ports.notifier import RELAYED, Notifier
from streamsched.store.catalog.outbox import PostgresOutbox

#: Seconds between two queries without a notification.
_POLL: Final = 1.0
#: Seconds between two queries about a change of more than `_MANY` records, which the relay appends in batches.
_SHORTEST_POLL: Final = 0.2
_MANY: Final = 1000


async def wait_for_ids(
    ids: Sequence[int], *, acks: PostgresOutbox, notifier: Notifier, within: float, stalled: float | None = None
) -> int:
    """Waits until the log has acknowledged these outbox records, and returns 0. After `within` seconds, or when no
    record up to the last of them was acknowledged for `stalled` seconds, returns how many are not acknowledged. Records
    of other changes that precede them count as progress; a record that the relay skips does not.

    Raises:
        UnavailableError: PostgreSQL is unreachable.
    """
    if not ids:
        return 0
    end, last = monotonic() + within, max(ids)
    stalls_at, left, ahead = end, len(ids), None
    try:
        async with notifier.listen(RELAYED) as subscription, asyncio.timeout(stalled) as stall_timeout:
            while left := await acks.count_outstanding(ids):
                found, now = await acks.count_between(0, last), monotonic()
                if stalled is not None and (ahead is None or found < ahead):
                    ahead, stalls_at = found, now + stalled
                    stall_timeout.reschedule(asyncio.get_running_loop().time() + stalled)
                pause = min(end, stalls_at) - now
                if pause <= 0:
                    break
                if left > _MANY:
                    await asyncio.sleep(min(_SHORTEST_POLL, pause))
                await subscription.wait(min(_POLL, pause))
    except TimeoutError:
        return left
    return left


async def wait_for_range(first: int, last: int, *, acks: PostgresOutbox, notifier: Notifier, within: float) -> int:
    """How many records with these ids the log has not acknowledged, after waiting up to `within` seconds for 0.

    Raises:
        UnavailableError: PostgreSQL is unreachable.
    """
    end = monotonic() + within
    async with notifier.listen(RELAYED) as subscription:
        while left := await acks.count_between(first, last):
            pause = end - monotonic()
            if pause <= 0:
                break
            if left > _MANY:
                await asyncio.sleep(min(_SHORTEST_POLL, pause))
            await subscription.wait(min(_POLL, pause))
    return left


async def wait_for_ack(ids: Sequence[int], *, acks: PostgresOutbox, notifier: Notifier, patience: float) -> None:
    """Returns when the log has acknowledged these outbox records; waits without limit while it makes progress.

    Raises:
        UnavailableError: PostgreSQL is unreachable, or the log has acknowledged none of them for `patience` seconds.
            The change is stored and will reach the log.
    """
    left = await wait_for_ids(ids, acks=acks, notifier=notifier, within=float("inf"), stalled=patience)
    if left:
        raise UnavailableError(
            f"the change is stored, but the log has acknowledged none of {left} remaining records for {patience:g} s; "
            "it takes effect as soon as the relay reaches the log, and deploying it again waits for that"
        )

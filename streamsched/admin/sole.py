"""Being the only one at work in an installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from streamsched.cancellation import cancel
from streamsched.domain.errors import ConflictError, UnavailableError
from streamsched.ports.leases import Holder, Leases, part_lease, shard_lease

_PARTS = ("relay", "progress")


@asynccontextmanager
async def alone(
    leases: Leases, me: Holder, *, shards: int, ttl: timedelta
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Holds the leases of all shards and of the parts that write to them, until the end. What it yields is to be asked
    before anything that cannot be taken back: it raises like this does, when somebody has come or a lease was lost.

    Raises:
        ConflictError: workers or launchers run, or a lease has not run out yet.
        UnavailableError: PostgreSQL is away.
    """
    names = [*map(shard_lease, range(shards)), *map(part_lease, _PARTS)]
    view = await leases.beat(me, {}, ttl)
    try:
        _nobody(tuple(view.workers), [lease.name for lease in view.leases if lease.live], me.id)
        held = await leases.claim(names, me.id, ttl)
        if missing := sorted(set(names) - held.keys()):
            raise ConflictError(f"somebody has just taken {', '.join(missing)}; stop everything first")

        async def check() -> None:
            now = await leases.beat(me, held, ttl)
            kept = {lease.name for lease in now.leases if lease.owner == me.id and held.get(lease.name) == lease.epoch}
            _nobody(tuple(now.workers), sorted(held.keys() - kept), me.id)

        async def hold() -> None:
            while True:
                await asyncio.sleep(ttl.total_seconds() / 4)
                with suppress(UnavailableError):  # `check` says so in the end
                    await leases.beat(me, held, ttl)

        holding = asyncio.create_task(hold())
        try:
            yield check
        finally:
            await cancel(holding)
            with suppress(UnavailableError):  # the leases run out by themselves
                await leases.release(held, me.id)
    finally:
        with suppress(UnavailableError):
            await leases.leave(me.id)


def _nobody(workers: tuple[str, ...], held: list[str], me: str) -> None:
    others = [worker for worker in workers if worker != me]
    if others:
        raise ConflictError(f"workers run: {', '.join(others)}; stop them, and the launchers, first")
    if held:
        raise ConflictError(f"leases stand: {', '.join(held)}; stop everything, or wait until they have run out")

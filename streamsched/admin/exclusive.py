"""Exclusive access to an installation while no worker or launcher runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from streamsched.domain.errors import ConflictError, UnavailableError
from streamsched.ports.leases import LeaseHolder, Leases, role_lease, shard_lease
from streamsched.process.cancellation import cancel

_ROLES = ("relay", "progress")


@asynccontextmanager
async def exclusive(
    leases: Leases, me: LeaseHolder, *, shards: int, ttl: timedelta
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Holds the leases of all shards and of the roles that write to them while the block runs. Yields a check to call
    before each irreversible step: it raises the same errors if another process has joined or a lease was lost.

    Raises:
        ConflictError: workers or launchers run, or a lease has not expired yet.
        UnavailableError: PostgreSQL is unreachable.
    """
    names = [*map(shard_lease, range(shards)), *map(role_lease, _ROLES)]
    view = await leases.heartbeat(me, {}, ttl)
    try:
        _check_idle(tuple(view.workers), [lease.name for lease in view.leases if lease.is_live], me.id)
        held = await leases.claim(names, me.id, ttl)
        if missing := sorted(set(names) - held.keys()):
            raise ConflictError(f"another process has just claimed {', '.join(missing)}; stop everything first")
        await leases.allow(held, me.id, me.reads)  # what is written from here may be in the newest format (ADR 5)

        async def check() -> None:
            now = await leases.heartbeat(me, held, ttl)
            kept = {lease.name for lease in now.leases if lease.owner == me.id and held.get(lease.name) == lease.epoch}
            _check_idle(tuple(now.workers), sorted(held.keys() - kept), me.id)

        async def hold() -> None:
            while True:
                await asyncio.sleep(ttl.total_seconds() / 4)
                with suppress(UnavailableError):  # `check` raises it
                    await leases.heartbeat(me, held, ttl)

        holding = asyncio.create_task(hold())
        try:
            yield check
        finally:
            await cancel(holding)
            with suppress(UnavailableError):  # the leases expire anyway
                await leases.release(held, me.id)
    finally:
        with suppress(UnavailableError):
            await leases.leave(me.id)


def _check_idle(workers: tuple[str, ...], held: list[str], me: str) -> None:
    others = [worker for worker in workers if worker != me]
    if others:
        raise ConflictError(f"workers run: {', '.join(others)}; stop them, and the launchers, first")
    if held:
        raise ConflictError(f"leases are held: {', '.join(held)}; stop everything, or wait until they have expired")

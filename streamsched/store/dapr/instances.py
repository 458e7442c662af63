"""`ports.dapr.instances.AppInstances` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from streamsched.ports.dapr.instances import SILENCE, AppInstance
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("dapr/instances")


class PostgresAppInstances:
    """See `ports.dapr.instances.AppInstances`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def beat(self, instances: Sequence[AppInstance]) -> None:
        with translated():
            await self._pool.execute(
                _SQL["beat"],
                [each.queue for each in instances],
                [each.address for each in instances],
                [each.token for each in instances],
            )

    async def remove(self, instances: Sequence[AppInstance]) -> None:
        with translated():
            await self._pool.execute(
                _SQL["remove"], [each.queue for each in instances], [each.address for each in instances]
            )

    async def live(self) -> Sequence[AppInstance]:
        with translated():
            rows = await self._pool.fetch(_SQL["live"], SILENCE)
        return [AppInstance(row["queue"], row["address"], row["token"]) for row in rows]

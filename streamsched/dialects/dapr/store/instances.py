"""The instances of apps that get jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

#: An instance whose endpoint sent no heartbeat for so long gets no jobs.
SILENCE: Final = timedelta(seconds=15)
#: In place of a queue: the addresses at which launchers are Dapr's scheduler. No app has this queue.
SCHEDULERS: Final = "dapr.scheduler"


class AppInstance(NamedTuple):
    """Where an app gets its jobs.

    Attributes:
        queue: of its jobs.
        address: `http://host:port` or `grpc://host:port`.
        token: sent as `dapr-api-token`; empty: none.
    """

    queue: str
    address: str
    token: str = ""


_SQL: Final = queries("instances", "streamsched.dialects.dapr.store")
_LIVE: Final = Select(_SQL["live"], AppInstance)


class AppInstances:
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def beat(self, instances: Sequence[AppInstance]) -> None:
        """Adds instances, or renews their heartbeats. Idempotent."""
        with translate_errors():
            await self._pool.execute(
                _SQL["beat"],
                [each.queue for each in instances],
                [each.address for each in instances],
                [each.token for each in instances],
            )

    async def remove(self, instances: Sequence[AppInstance]) -> None:
        """Removes instances. Idempotent."""
        with translate_errors():
            await self._pool.execute(
                _SQL["remove"], [each.queue for each in instances], [each.address for each in instances]
            )

    async def live_instances(self) -> Sequence[AppInstance]:
        """The instances with a heartbeat within `SILENCE`."""
        with translate_errors():
            return await _LIVE.fetch(self._pool, SILENCE)

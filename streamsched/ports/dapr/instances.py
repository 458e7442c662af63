"""The instances of apps that get jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

#: An instance whose endpoint sent no heartbeat for so long gets no jobs.
SILENCE: Final = timedelta(seconds=15)
#: In place of a queue: the addresses at which launchers are Dapr's scheduler. No app has this queue.
SCHEDULERS: Final = "dapr.scheduler"


@dataclass(frozen=True, slots=True)
class AppInstance:
    """Where an app gets its jobs.

    Attributes:
        queue: of its jobs.
        address: `http://host:port` or `grpc://host:port`.
        token: sent as `dapr-api-token`; empty: none.
    """

    queue: str
    address: str
    token: str = ""


class AppInstances(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    async def beat(self, instances: Sequence[AppInstance]) -> None:
        """Adds instances, or renews their heartbeats. Idempotent."""
        ...

    async def remove(self, instances: Sequence[AppInstance]) -> None:
        """Removes instances. Idempotent."""
        ...

    async def live(self) -> Sequence[AppInstance]:
        """The instances with a heartbeat within `SILENCE`."""
        ...

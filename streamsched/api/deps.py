"""What routes ask for: aliases over the one `ApiServices` an application was made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Request

from streamsched.api.health import Health
from streamsched.catalog.audience import Audience
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.replaying import Replaying
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.ports.clusters import Board
from streamsched.ports.groups import Groups
from streamsched.ports.jobs import Jobs
from streamsched.ports.pools import Pools
from streamsched.ports.progress import OpenKeys
from streamsched.ports.runs import Runs
from streamsched.ports.verdicts import Trails
from streamsched.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """What the API is made of.

    Attributes:
        verdicts_keep: how long verdicts are kept; nothing when they are not.
        shards: partitions of the public topics.
        body_limit: largest request body in bytes.
        health: how the process is, which also counts for everybody.
        cluster_urls: how the load of each cluster is asked for, by its name.
    """

    broker: Broker
    catalog: Catalog
    replaying: Replaying
    jobs: Jobs
    runs: Runs
    groups: Groups
    pools: Pools
    clusters: Board
    cluster_urls: Mapping[str, str]
    trails: Trails
    audience: Audience
    keys: OpenKeys
    clock: Clock
    verdicts_keep: timedelta
    shards: int
    body_limit: int
    health: Health

    @property
    def metrics(self) -> Metrics:
        return self.health.metrics


def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


def _part(name: str) -> Any:
    def part(request: Request) -> Any:
        return getattr(_services(request), name)

    return Depends(part)


ServicesDep = Annotated[ApiServices, Depends(_services)]
CatalogDep = Annotated[Catalog, _part("catalog")]
JobsDep = Annotated[Jobs, _part("jobs")]
KeysDep = Annotated[OpenKeys, _part("keys")]
RunsDep = Annotated[Runs, _part("runs")]
GroupsDep = Annotated[Groups, _part("groups")]
PoolsDep = Annotated[Pools, _part("pools")]
ClockDep = Annotated[Clock, _part("clock")]

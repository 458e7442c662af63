"""Clusters: how their load is asked for, what they said last, and what that means for the jobs that wait for room."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.rendering import rendered
from streamsched.api.views import cluster_view
from streamsched.ports.clusters import ClusterRecord

router = APIRouter(prefix="/v1/clusters")


@router.get("")
async def list_clusters(services: ServicesDep) -> Response:
    """Ordered by name: those this API is configured with, and those that a job ever waited for. A cluster is asked only
    while jobs wait for it.
    """
    urls, now = services.cluster_urls, services.clock.now()
    known = {record.name: record for record in await services.clusters.all()}
    known |= {name: ClusterRecord(name, None, None, None, None, 0) for name in urls.keys() - known.keys()}
    return rendered({"clusters": [cluster_view(known[name], urls.get(name), now=now) for name in sorted(known)]})

"""Clusters: their probe, its last reading, and the load gates of waiting jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from starlette.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW_ALL
from streamsched.domain.constraints.load import STALE
from streamsched.store.limits.clusters import ClusterRecord
from streamsched.wire.limits import CLUSTER, GATE

routes = Routes("/v1/clusters", "limits")


@routes.get("", "List clusters", may=VIEW_ALL, answers=CLUSTER.page("clusters"))
async def list_clusters(services: ServicesDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name: the clusters configured for this API and all that a job has ever waited for. Launchers
    read the load of a cluster only while jobs wait for it.
    """
    urls, now = services.settings.runs.clusters, services.clock.now()
    known = {record.name: record for record in await services.limits.clusters.all()}
    known |= {name: ClusterRecord(name, None, None, None, None, 0) for name in urls.keys() - known.keys()}
    names = [name for name in sorted(known) if name > after][: limit + 1]
    return json_response(
        page("clusters", names, limit, lambda name: _view(known[name], urls.get(name), now), lambda name: name)
    )


def _view(cluster: ClusterRecord, url: str | None, now: datetime) -> dict[str, Any]:
    reading = cluster.reading
    return CLUSTER.answer_of(
        cluster,
        probe=None if url is None else _public(url),
        free_cores=reading and reading.free_cores,
        free_memory=reading and reading.free_memory,
        running=reading and reading.running,
        read_at=cluster.at,
        stale=cluster.at is None or now - cluster.at > STALE,
        failing_since=cluster.failing,
        gates=[
            GATE.answer_of(each.gate, each, needs=str(each.load), starts_per_reading=each.load.starts)
            for each in cluster.gates
        ],
    )


def _public(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

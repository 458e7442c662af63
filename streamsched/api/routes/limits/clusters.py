"""Clusters: their probe, its last reading, and the load gates of waiting jobs."""

from __future__ import annotations

from starlette.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import rendered
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW_ALL
from streamsched.api.views import cluster_view
from streamsched.store.limits.clusters import ClusterRecord

routes = Routes("/v1/clusters", "limits")


@routes.get("", "List clusters", may=VIEW_ALL, answers="ClusterPage")
async def list_clusters(services: ServicesDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name: the clusters configured for this API and all that a job has ever waited for. Launchers
    read the load of a cluster only while jobs wait for it.
    """
    urls, now = services.settings.runs.clusters, services.clock.now()
    known = {record.name: record for record in await services.limits.clusters.all()}
    known |= {name: ClusterRecord(name, None, None, None, None, 0) for name in urls.keys() - known.keys()}
    names = [name for name in sorted(known) if name > after][: limit + 1]
    return rendered(
        page(
            "clusters", names, limit, lambda name: cluster_view(known[name], urls.get(name), now=now), lambda name: name
        )
    )

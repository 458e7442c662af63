"""The HTTP application. It is created by a function, so importing has no side effects and instances share no state."""

from __future__ import annotations

from functools import cache, partial
from itertools import chain

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from streamsched.api import health
from streamsched.api.access.authorise import authorise
from streamsched.api.access.outcomes import RequestOutcomes
from streamsched.api.bounds.body_room import BodyRoom
from streamsched.api.deps import ApiServices
from streamsched.api.description.document import document
from streamsched.api.description.page import ReferencePage
from streamsched.api.problems import PROBLEMS
from streamsched.api.rendering import json_response
from streamsched.api.request_guard import RequestGuard
from streamsched.api.request_measures import RequestMeasures
from streamsched.api.routes import (
    access,
    admin,
    apps,
    backfills,
    changes,
    events,
    expectations,
    graphs,
    jobs,
    preferences,
    programs,
    runs,
    schedules,
    submissions,
    ticks,
    verdicts,
)
from streamsched.api.routes.datasets import bookmarks, dataset, file_sets
from streamsched.api.routes.limits import clusters, groups, pools, quotas
from streamsched.api.routes.needs import bundles, grants, profiles
from streamsched.api.routes.tasks import lanes, partitions, queues, tasks
from streamsched.api.routes.webhooks import decisions, webhooks
from streamsched.api.routing.table import NamedRoute, RouteTable
from streamsched.parts import additions


def make_routes() -> RouteTable:
    """All routes, with authorisation. They hold no services: several applications of a process may share them."""
    modules = (
        events,
        verdicts,
        apps,
        changes,
        programs,
        preferences,
        profiles,
        bundles,
        grants,
        bookmarks,
        file_sets,
        dataset,
        schedules,
        expectations,
        ticks,
        submissions,
        backfills,
        jobs,
        runs,
        graphs,
        groups,
        pools,
        clusters,
        quotas,
        queues,
        lanes,
        partitions,
        tasks,
        webhooks,
        decisions,
        access,
        admin,
        health,
    )
    own = chain.from_iterable(module.routes for module in modules)
    foreign = chain.from_iterable(routes for _, routes in additions("routes"))
    return RouteTable(chain(own, foreign), door=authorise)


def make_api(services: ApiServices, table: RouteTable | None = None) -> Starlette:
    """Creates the application with all routes, error handlers, metrics, authorisation and the request guard.

    `table`: that of `make_routes`, when it is made already, which takes a tenth of a second.
    """
    table = make_routes() if table is None else table
    described = cache(partial(document, table.served))

    async def openapi(request: Request) -> Response:
        del request
        return json_response(described())

    page = ReferencePage(described)
    api = Starlette(
        routes=[
            table,
            NamedRoute("/v1/openapi.json", openapi, name="/v1/openapi.json"),
            NamedRoute("/docs", page.answer, name="/docs"),
        ],
        middleware=[
            Middleware(
                RequestGuard,
                hosts=services.access.allowed_hosts,
                dialects=table.dialects,
                metrics=services.metrics,
            ),
            *(Middleware(each.middleware) for each in table.dialects if each.middleware),
            Middleware(RequestMeasures, metrics=services.metrics),
            Middleware(RequestOutcomes, audit=services.access.audit),
        ],
        exception_handlers=PROBLEMS,
    )
    api.state.services = services
    api.state.dialects = table.dialects
    api.state.body_room = BodyRoom(services.settings.api.body_limit)
    api.state.quota_watch = services.limits.quota_watch
    api.state.health = services.health
    api.state.closing = [partial(_end_streams, services)]
    return api


def _end_streams(services: ApiServices) -> None:
    services.webhooks.decisions.close()

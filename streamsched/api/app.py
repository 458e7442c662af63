"""The HTTP application. It is created by a function, so importing has no side effects and instances share no state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute

from streamsched import __version__
from streamsched.api import health, openlineage
from streamsched.api.access.authorise import authorise
from streamsched.api.access.outcomes import RequestOutcomes
from streamsched.api.access.rules import Handler, RouteTable
from streamsched.api.bounds.body_room import BodyRoom
from streamsched.api.cdap.default_namespace import DefaultNamespace
from streamsched.api.cdap.routes import cdap_routes
from streamsched.api.dapr import native as dapr
from streamsched.api.deps import ApiServices
from streamsched.api.description.document import described
from streamsched.api.description.page import ReferencePage
from streamsched.api.pagerduty import routes as pagerduty
from streamsched.api.problems import answer_problems
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


def make_routes() -> Sequence[BaseRoute]:
    """All routes, with authorisation. They hold no services: several applications of a process may share them."""
    router = APIRouter(dependencies=[Depends(authorise)])
    for module in (
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
        pagerduty,
        openlineage,
        dapr,
        access,
        admin,
        health,
    ):
        router.include_router(module.router)
    router.include_router(cdap_routes())
    return router.routes


def make_api(services: ApiServices, routes: Sequence[BaseRoute] | None = None) -> FastAPI:
    """Creates the application with all routes, error handlers, metrics, authorisation and the request guard.

    `routes`: those of `make_routes`, when they are made already, which takes a fifth of a second.

    Raises:
        LookupError: a route has no rule of access.
    """
    api = FastAPI(
        title="streamsched",
        version=__version__,
        summary="Starts the right Spark job seconds after its inputs are complete.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    api.state.services = services
    api.state.body_room = BodyRoom(services.settings.api.body_limit)
    api.state.quota_watch = services.limits.quota_watch
    api.state.health = services.health
    api.state.closing = [partial(_end_streams, services)]
    api.router.routes.extend(make_routes() if routes is None else routes)
    api.state.routes = RouteTable(_routes(api))
    api.openapi = described(api.openapi)  # type: ignore[method-assign]
    api.add_route("/docs", ReferencePage(api.openapi).answer, include_in_schema=False)
    answer_problems(api)
    api.add_middleware(RequestOutcomes, audit=services.access.audit)
    api.add_middleware(RequestMeasures, metrics=services.metrics, routes=api.state.routes)
    api.add_middleware(DefaultNamespace)
    api.add_middleware(RequestGuard, hosts=services.access.allowed_hosts, metrics=services.metrics)
    return api


def _end_streams(services: ApiServices) -> None:
    services.webhooks.decisions.close()


def _routes(api: FastAPI) -> Iterator[tuple[str, str, Handler]]:
    """Method, pattern and function of every route, also of nested routers."""
    for each in iter_route_contexts(api.routes):
        if each.endpoint is not None:
            yield from ((method, str(each.path), each.endpoint) for method in each.methods or ())

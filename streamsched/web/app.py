"""The application of the pages, which the composition mounts at `/ui` of the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streamsched.api.access.security_headers import SecurityHeaders
from streamsched.web.dispatch import Dispatch
from streamsched.web.page_access import PageAccess
from streamsched.web.pages import (
    find,
    graph,
    home,
    job,
    job_actions,
    jobs,
    login,
    provider_login,
    run,
    run_actions,
    runs,
    schedule,
    schedule_actions,
    schedules,
    settings,
    versions,
)
from streamsched.web.pages.inputs import datasets, dead_letters, event, events, expectations
from streamsched.web.pages.operation import backfills, grants, installation, limits, queues, webhooks
from streamsched.web.rendering import Renderer
from streamsched.web.rules import PAGE_RULES, PUBLIC_PAGES
from streamsched.web.visit import PageRoute, PageServices

#: Where the application is mounted.
PREFIX: Final = "/ui"


def make_web(services: PageServices) -> Starlette:
    """Creates the application with all pages.

    Raises:
        LookupError: a page has no rule, or a rule no page.
    """
    renderer = Renderer()
    dispatch = Dispatch(services, renderer, PageAccess(PAGE_RULES))
    pages = list(page_routes(renderer))
    idle = sorted(set(PAGE_RULES) - {page.name for page in pages})
    if idle:
        raise LookupError(f"web/rules.py: rules without a page: {idle}")
    routes = [_route(page.method, page.path, dispatch.endpoint(page), page.name) for page in pages]

    async def static(request: Request) -> Response:
        file = renderer.files.get(request.path_params["file"])
        return PlainTextResponse("no such file", 404) if file is None else file.answer()

    provider = services.api.access.login
    door = login.LoginPages(services.sessions, renderer, provider=provider.name if provider else "")
    away = provider_login.ProviderLoginPages(provider, services.sessions, door, services.api.clock)
    routes += [
        _route("GET", "/ui/login", door.show, "GET /ui/login"),
        _route("POST", "/ui/login", door.enter, "POST /ui/login"),
        _route("GET", "/ui/login/oidc", away.leave, "GET /ui/login/oidc"),
        _route("GET", provider_login.CALLBACK, away.come_back, f"GET {provider_login.CALLBACK}"),
        _route("GET", "/ui/static/{file}", static, "GET /ui/static/{file}"),
    ]
    assert {route.name for route in routes} == set(PAGE_RULES) | PUBLIC_PAGES
    app = Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)])
    app.state.services = services.api
    return app


def page_routes(renderer: Renderer) -> Iterator[PageRoute]:
    """Every page and action that needs a session."""
    for module in (
        home,
        find,
        schedules,
        schedule,
        schedule_actions,
        jobs,
        job,
        job_actions,
        runs,
        run,
        run_actions,
        settings,
        versions,
        events,
        event,
        dead_letters,
        datasets,
        expectations,
        graph,
        limits,
        queues,
        webhooks,
        grants,
        backfills,
        installation,
    ):
        yield from module.routes(renderer)


def _route(method: str, path: str, endpoint: object, name: str) -> Route:
    return Route(path.removeprefix(PREFIX), endpoint, methods=[method], name=name)  # type: ignore[arg-type]

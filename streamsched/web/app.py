"""The application of the pages, which the composition mounts at `/ui` of the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from streamsched.api.access.security_headers import SecurityHeaders
from streamsched.api.routing.rules import Rule
from streamsched.api.routing.table import NamedRoute
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
from streamsched.web.visit import PageRoute, PageServices

#: Where the application is mounted.
PREFIX: Final = "/ui"


def make_web(services: PageServices) -> Starlette:
    """Creates the application with all pages."""
    renderer = Renderer()
    pages = list(page_routes(renderer))
    dispatch = Dispatch(services, renderer, PageAccess({page.name: page.rule for page in pages}))
    routes = [_route(page.method, page.path, dispatch.endpoint(page)) for page in pages]

    async def static(request: Request) -> Response:
        file = renderer.files.get(request.path_params["file"])
        return PlainTextResponse("no such file", 404) if file is None else file.answer()

    provider = services.api.access.login
    door = login.LoginPages(services.sessions, renderer, provider=provider.name if provider else "")
    away = provider_login.ProviderLoginPages(provider, services.sessions, door, services.api.clock)
    routes += [
        _route("GET", "/ui/login", door.show),
        _route("POST", "/ui/login", door.enter),
        _route("GET", "/ui/login/oidc", away.leave),
        _route("GET", provider_login.CALLBACK, away.come_back),
        _route("GET", "/ui/static/{file}", static),
    ]
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


def page_rules() -> Mapping[str, Rule]:
    """What each page needs, by method and path."""
    return {page.name: page.rule for page in page_routes(Renderer())}


def _route(method: str, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> NamedRoute:
    return NamedRoute(path.removeprefix(PREFIX), endpoint, methods=[method], name=f"{method} {path}")

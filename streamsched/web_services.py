"""Composition of the pages: the API with `/ui` mounted, and the login link of `streamsched dev`."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from streamsched.access.authentication import ANYBODY, OpenAuthentication
from streamsched.api.access.rules import RouteTable
from streamsched.api.app import make_api
from streamsched.api.deps import ApiServices
from streamsched.domain.access.token import StoredTokenText, read_token
from streamsched.ports.clock import SystemClock
from streamsched.store.access.tokens import TokenStore
from streamsched.store.connections import Pool, open_pool
from streamsched.store.web.page_reads import PageReads
from streamsched.web.app import PREFIX, make_web
from streamsched.web.live import LiveFeed
from streamsched.web.session import Sessions
from streamsched.web.visit import PageServices


def make_http(services: ApiServices, pool: Pool, routes: Sequence[BaseRoute] | None = None) -> FastAPI:
    """The API, with the pages at `/ui`. `routes`: those of the API, when they are made already."""
    api = make_api(services, routes)
    reads = PageReads(pool)
    feed = LiveFeed(reads.version)
    everybody = ANYBODY if isinstance(services.authentication, OpenAuthentication) else None
    rules = services.login.rules if services.login else None
    sessions = Sessions(services.tokens, services.clock, everybody=everybody, rules=rules)
    web = make_web(
        PageServices(
            api=services,
            reads=reads,
            sessions=sessions,
            feed=feed,
        )
    )
    names: RouteTable = api.state.routes
    for route in web.routes:
        if isinstance(route, Route):
            names.add_name(route.endpoint, f"GET {PREFIX}{route.path}")
    api.router.routes.append(Route("/", _to_pages))
    api.mount(PREFIX, web)
    api.state.closing.append(feed.close)
    return api


async def _to_pages(request: Request) -> Response:
    del request
    return RedirectResponse(f"{PREFIX}/")


async def login_path(database_url: str, token: str) -> str:
    """The path and query of a login link for the owner of this token; without a code when it is no stored token."""
    known = read_token(token)
    if not isinstance(known, StoredTokenText):
        return f"{PREFIX}/"
    pool = await open_pool(database_url, max_size=1)
    try:
        code = await Sessions(TokenStore(pool), SystemClock()).code(known.id)
        return f"{PREFIX}/login?code={code}"
    finally:
        pool.terminate()

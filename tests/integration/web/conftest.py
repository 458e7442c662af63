"""The pages in this process, on a real PostgreSQL, with tokens."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from streamsched.access.issuing import create_token
from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import TokenRequest
from streamsched.roles.api import api_services, make_http
from streamsched.roles.services import Services, open_services
from streamsched.store.access.tokens import TokenStore
from tests.support.api_routes import api_routes
from tests.support.relaying import relaying

#: Logs a new client in with these grants.
LogIn = Callable[..., Awaitable["Browser"]]


class Browser:
    """A client that keeps cookies and sends forms as a browser does."""

    def __init__(self, http: httpx.AsyncClient, token: str) -> None:
        self.http = http
        self.token = token

    async def get(self, path: str, **query: str) -> httpx.Response:
        return await self.http.get(path, params=query or None)

    async def send(self, path: str, *, page: str = "/ui/", **fields: str) -> httpx.Response:
        """Sends a form with the token that `page` has."""
        found = re.search(r'name="csrf" value="([^"]+)"', (await self.http.get(page, follow_redirects=True)).text)
        return await self.http.post(path, data={"csrf": found[1] if found else "", **fields})

    async def log_in(self, **fields: str) -> httpx.Response:
        return await self.http.post("/ui/login", data={"token": self.token, **fields})

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
async def services(database: str) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database)) as services, relaying(services):
        yield services


@pytest.fixture
async def log_in(services: Services) -> AsyncIterator[LogIn]:
    opened: list[httpx.AsyncClient] = []
    app = make_http(api_services(services), services.pool, api_routes())

    async def browser(*grants: Grant, enter: bool = True) -> Browser:
        request = TokenRequest(f"t{len(opened)}", grants or (Grant(role=AccessRole.ADMIN),))
        _, text = await create_token(TokenStore(services.pool), services.clock, request, by="test")
        transport = httpx.ASGITransport(app=app)
        http = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        opened.append(http)
        found = Browser(http, text)
        if enter:
            assert (await found.log_in()).status_code == 200
        return found

    yield browser
    for each in opened:
        await each.aclose()

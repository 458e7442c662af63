"""Tokens where they are read: by the stream of workers, and by requests that come at the same time."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from streamsched.access.authentication import TokenAuthentication
from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.task_streams import make_stream_api
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import UnauthenticatedError
from streamsched.roles.services import Services
from streamsched.store.access.tokens import FoundToken, TokenStore
from streamsched.tasks.worker_streams import WorkerStreams
from tests.integration.api.test_access import token

pytestmark = pytest.mark.postgres


async def test_workers_need_a_token_that_may_emit(services: Services) -> None:
    opened = make_stream_api(
        WorkerStreams(services.clock),
        AllowedHosts.of(),
        TokenAuthentication(TokenStore(services.pool), services.clock),
        body_limit=1024,
    )
    viewer = await token(services, "viewer", Grant(role=AccessRole.VIEWER))
    worker = await token(services, "worker", Grant(role=AccessRole.EMITTER))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=opened), base_url="http://localhost") as client:
        for header, expected in (({}, 401), (viewer, 403), (worker, 400)):
            answer = await client.post("/v1/task-streams", json={}, headers=header)
            assert answer.status_code == expected, answer.text
        answer = await client.post("/v1/task-streams/unknown", json={}, headers=viewer)
        assert answer.status_code == 403


class CountedTokens(TokenStore):
    """Counts how often it is read."""

    reads = 0

    async def find(self, token: str) -> FoundToken | None:
        self.reads += 1
        return await super().find(token)


async def test_requests_at_the_same_time_share_one_reading_of_their_token(services: Services) -> None:
    store = CountedTokens(services.pool)
    authentication = TokenAuthentication(store, services.clock)
    header = await token(services, "worker", Grant(role=AccessRole.EMITTER))
    unknown = {"Authorization": f"{header['Authorization'][:-1]}{'a' if header['Authorization'][-1] != 'a' else 'b'}"}

    found = await asyncio.gather(*(authentication.caller(header["Authorization"]) for _ in range(100)))
    assert ({each.name for each in found}, store.reads) == ({"token:worker"}, 1)
    refused = await asyncio.gather(
        *(authentication.caller(unknown["Authorization"]) for _ in range(100)), return_exceptions=True
    )
    assert {type(each) for each in refused} == {UnauthenticatedError}
    assert store.reads == 2

    again = TokenAuthentication(store, services.clock)
    first, second = (asyncio.create_task(again.caller(header["Authorization"])) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()  # its client has gone
    assert ((await second).name, store.reads) == ("token:worker", 3)

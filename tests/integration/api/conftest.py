"""The API in this process: real PostgreSQL, the log in it, a relay that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.config import Settings
from streamsched.ports.clock import Clock, SystemClock
from streamsched.roles.api import api_services
from streamsched.roles.services import Services, open_services
from tests.support.api_routes import api_routes
from tests.support.described_answers import check_answer
from tests.support.relaying import relaying

APP = {
    "programs": [
        {"name": "join", "type": "bash", "command": "true"},
        {"name": "report", "type": "bash", "command": "true"},
    ],
    "schedules": [
        {
            "name": "weekly",
            "program": "join",
            "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
        }
    ],
}


@pytest.fixture
def clock() -> Clock:
    """What the services go by; a test module may put another in its place."""
    return SystemClock()


@pytest.fixture
async def services(database: str, clock: Clock) -> AsyncIterator[Services]:
    settings = Settings.from_env({}, database_url=database, body_limit=64 * 1024, api_access="open")
    async with open_services(settings, clock=clock) as services, relaying(services):
        yield services


@pytest.fixture
async def client(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """Every answer must be one that the OpenAPI document describes."""
    transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()), raise_app_exceptions=False)
    hooks = {"response": [check_answer]}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", event_hooks=hooks) as client:
        yield client


@pytest.fixture
async def deployed(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of an API that knows the app `default.flights`."""
    answer = await client.put("/v1/apps/default/flights", json=APP)
    assert answer.status_code == 200, answer.text
    return client

"""What a person sees of the database's clock, and says about it: over HTTP, by commands, on pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.roles.services import Services, open_services
from tests.integration.api.test_access import token
from tests.support.relaying import relaying
from tests.support.wrong_clock import WrongClock

pytestmark = pytest.mark.postgres

YEAR = timedelta(days=365)
CLOCK, CONFIRM = "/v1/admin/clock", "/v1/admin/clock/confirm"


@pytest.fixture
async def services(wrong_clock: WrongClock, database: str) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database)) as services, relaying(services):
        yield services


@pytest.fixture
async def admin(services: Services) -> dict[str, str]:
    return await token(services, "admin", Grant(role=AccessRole.ADMIN))


async def test_a_clock_that_is_right_is_said_so_and_cannot_be_confirmed(
    client: httpx.AsyncClient, admin: dict[str, str]
) -> None:
    found = (await client.get(CLOCK, headers=admin)).json()
    refused = await client.post(CONFIRM, json={"number": 0}, headers=admin)

    assert (found["aheadSeconds"], found["doubt"], found["number"], found["last"]) == (0, None, 0, None)
    assert found["database"] == found["counted"]
    assert refused.status_code == 409
    assert "not in doubt" in refused.text
    assert (await client.get("/health/ready")).json()["checks"]["clock"] == "ok"
    assert b"streamsched_clock_ahead_seconds 0.0" in (await client.get("/metrics", headers=admin)).content


async def test_a_jump_is_shown_everywhere_until_a_person_confirms(
    wrong_clock: WrongClock, client: httpx.AsyncClient, services: Services, admin: dict[str, str]
) -> None:
    viewer = await token(services, "viewer", Grant(role=AccessRole.OPERATOR))
    clock = services.measured
    assert clock is not None
    await wrong_clock.set(YEAR)
    await clock.compare()

    found = (await client.get(CLOCK, headers=viewer)).json()
    ready = await client.get("/health/ready")
    checks = {each["check"]: each for each in (await client.get("/v1/admin/checks", headers=admin)).json()["findings"]}
    overview = (await client.get("/v1/admin/overview", headers=admin)).json()
    metrics = (await client.get("/metrics", headers=admin)).text

    assert found["doubt"].startswith("jumped 365d ahead at ")
    assert found["last"] == {"fact": "jumped", "at": found["last"]["at"], "by": services.identity.id}
    assert found["aheadSeconds"] == pytest.approx(YEAR.total_seconds(), abs=1)
    assert ready.status_code == 200, "an installation whose clock jumped works on"
    assert "jumped 365d ahead" in ready.json()["checks"]["clock"]
    assert (checks["time"]["health"], "confirm" in checks["time"]["advice"]) == ("failed", True)
    assert "jumped 365d ahead" in overview["clock"]
    assert "streamsched_clock_ahead_seconds 3.153" in metrics

    assert (await client.post(CONFIRM, json={"number": 1}, headers=viewer)).status_code == 403
    assert (await client.post(CONFIRM, json={"number": 7}, headers=admin)).status_code == 409
    assert (await client.post(CONFIRM, json={}, headers=admin)).status_code == 400
    confirmed = await client.post(CONFIRM, json={"number": 1}, headers=admin)
    again = await client.post(CONFIRM, json={"number": 1}, headers=admin)

    assert confirmed.status_code == 200
    assert (confirmed.json()["doubt"], confirmed.json()["last"]["fact"]) == (None, "confirmed")
    assert confirmed.json()["last"]["by"].endswith("admin")
    assert again.status_code == 409
    await clock.compare()
    assert (clock.doubt, clock.in_doubt) == (None, False)
    entries = (await client.get("/v1/audit", headers=admin)).json()["entries"]
    assert CONFIRM in [each["target"] for each in entries]

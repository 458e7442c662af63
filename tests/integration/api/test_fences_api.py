"""Who may commit and fence as an attempt of a job: a run for its own job, others who may operate where the job is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import pytest

from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import run_token_text
from streamsched.domain.jobs.run import RunState
from streamsched.roles.services import Services, open_services
from streamsched.store.access.tokens import TokenStore
from tests.integration.api.test_access import token
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

JOB: Final = "sales.shop.daily.1.1"
FENCES, COMMITS = "/v1/datasets/sales/flights/fences", "/v1/datasets/sales/flights/commits"


@pytest.fixture
async def services(database: str) -> AsyncIterator[Services]:
    """With tokens."""
    async with open_services(Settings.from_env({}, database_url=database)) as services:
        yield services


async def run_token(services: Services, run: str) -> dict[str, str]:
    """The header of an active run."""
    await StoredWorld(services.pool).add_run(
        run, program="sales.shop.join", at=datetime.now(UTC), state=RunState.PENDING
    )
    key = await TokenStore(services.pool).key()
    return {"Authorization": f"Bearer {run_token_text(run, key)}"}


def requests(job: str) -> list[tuple[str, dict[str, Any]]]:
    """A fence, and a commit that fences."""
    epoch = {"job": job, "attempt": 2}
    commit = {"commit": f"c-{job}", "manifest": "m", "location": "hdfs://lake/flights"}
    return [(FENCES, epoch), (COMMITS, {**commit, **epoch})]


async def statuses(client: httpx.AsyncClient, headers: dict[str, str], job: str) -> list[int]:
    return [(await client.post(path, json=body, headers=headers)).status_code for path, body in requests(job)]


async def test_an_emitter_fences_no_job(client: httpx.AsyncClient, services: Services) -> None:
    emitter = await token(services, "e", Grant(role=AccessRole.EMITTER, namespace="sales"))

    assert await statuses(client, emitter, JOB) == [403, 403]
    refused = await client.post(FENCES, json={"job": JOB, "attempt": 2}, headers=emitter)
    assert f"$.job: job '{JOB}' is not the job of token:e" in refused.json()["detail"]
    without = {"commit": "x", "manifest": "m", "location": "hdfs://lake/flights"}
    assert (await client.post(COMMITS, json=without, headers=emitter)).status_code == 200


async def test_a_run_fences_its_own_job_and_no_other(client: httpx.AsyncClient, services: Services) -> None:
    scheduled = await run_token(services, f"{JOB}.r2")
    manual = await run_token(services, "sales.shop.join.manual-7.r1")

    assert await statuses(client, scheduled, JOB) == [200, 200]
    assert await statuses(client, manual, "sales.shop.join.manual-7.r1") == [200, 200]
    for job in ("sales.shop.daily.1.2", "sales.shop.daily.1.11", "sales.other.x.1.1", "finance.pay.x.1.1", "x"):
        assert await statuses(client, scheduled, job) == [403, 403], job
    assert await statuses(client, manual, JOB) == [403, 403]


async def test_who_may_operate_where_the_job_is_fences_it(client: httpx.AsyncClient, services: Services) -> None:
    operator = await token(services, "o", Grant(role=AccessRole.OPERATOR, namespace="sales"))

    assert await statuses(client, operator, JOB) == [200, 200]
    assert await statuses(client, operator, "finance.pay.daily.1.1") == [403, 403]

"""Orders to jobs over HTTP."""

from __future__ import annotations

import httpx
import pytest

pytestmark = pytest.mark.postgres

WAITING = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready)
VALUES ('default.flights.weekly.1.1', 'default.flights.weekly', 1, 1, 'default.flights.join', 'PENDING_CONSTRAINT',
    now(), now(), '{}')
"""


@pytest.mark.parametrize("order", ["force", "cancel", "hold", "release"])
async def test_a_job_takes_an_order_with_its_reason(deployed: httpx.AsyncClient, services: object, order: str) -> None:
    await services.pool.execute(WAITING)  # type: ignore[attr-defined]

    answer = await deployed.post(f"/v1/jobs/default.flights.weekly.1.1/{order}", json={"reason": "ann: late"})

    assert answer.status_code == 202, answer.text
    lines = await services.pool.fetch("SELECT action, reason FROM decisions WHERE subject_kind = 'job'")  # type: ignore[attr-defined]
    assert [tuple(line) for line in lines] == [(f"job.{order}_ordered", "ann: late")]


async def test_an_unknown_job_or_order_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/jobs/default.a.b.1.1/force")).status_code == 404
    assert (await client.post("/v1/jobs/default.a.b.1.1/dance")).status_code == 404
    for path in ("/v1/jobs/default.a.b.1.1/why", "/v1/queues/mail/lane"):
        answer = await client.post(path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET"), "what is only read takes no order"

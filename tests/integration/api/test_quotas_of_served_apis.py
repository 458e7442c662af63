"""Quotas on two processes' worth of API: two servers with a port each, one database, tokens, real time."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import httpx
import pytest

from streamsched.client import Client
from streamsched.domain.errors import ForbiddenError, NotFoundError, UnavailableError
from streamsched.domain.quotas.event_level import SAVED
from streamsched.emit.draft import partitions_added
from tests.support.served_api import ServedApi, served_api

pytestmark = pytest.mark.postgres

TRIGGER = {"type": "PARTITION", "dataset": "flights", "numPartitions": 7}


@pytest.fixture
def apis(database: str) -> Iterator[tuple[ServedApi, ServedApi]]:
    with served_api(database) as one, served_api(database, api_access="open") as other:
        yield one, other


def app(schedules: int) -> dict[str, Any]:
    names = [{"name": f"s{n}", "program": "join", "trigger": TRIGGER} for n in range(schedules)]
    return {"programs": [{"name": "join", "type": "http", "url": "http://far.example/"}], "schedules": names}


def test_a_rate_holds_over_two_servers_and_an_emitter_is_asked_to_wait(apis: tuple[ServedApi, ServedApi]) -> None:
    one, other = apis
    limit, batch = 2, 20
    data = {"dataset": "flights", "partitions": ["d=1"]}
    with Client(one.url, token=one.token) as admin, one.client() as first, other.client() as second:
        assert admin.set_quota("default", "events_per_second", limit, reason="a test").limit == limit
        answers: list[httpx.Response] = []
        began = monotonic()
        for n in range(40):
            sent = [{"id": f"{n}-{m}", "source": "t", "type": "partitions.added", "data": data} for m in range(batch)]
            answers.append((first, second)[n % 2].post("/v1/events?check=none", json=sent))
        took = monotonic() - began

        accepted = batch * sum(answer.status_code == 202 for answer in answers)
        assert accepted <= limit * (SAVED + took + 1) + 2 * batch
        answer = answers[-1]
        assert (answer.status_code, answer.json()["quota"]) == (429, "events_per_second")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        [use] = admin.quotas("default")
        assert use.used is not None
        metrics = first.get("/metrics").text
        assert 'streamsched_quota_use_ratio{namespace="default",quota="events_per_second"}' in metrics
        assert 'streamsched_quota_refused_total{quota="events_per_second"}' in metrics

        with Client(one.url, token=one.token, pauses=()) as client:

            def emit_on() -> None:
                for _ in range(20):
                    client.emit(*[partitions_added("flights", ["d=1"])] * batch)

            with pytest.raises(UnavailableError, match="try again in"):
                emit_on()
        admin.unset_quota("default", "events_per_second", reason="it was a test")
        with pytest.raises(NotFoundError):
            admin.unset_quota("default", "events_per_second")


def test_only_an_admin_of_all_namespaces_sets_quotas_and_what_he_did_is_in_the_audit(
    apis: tuple[ServedApi, ServedApi],
) -> None:
    one, _ = apis
    with Client(one.url, token=one.token) as admin, one.client() as raw:
        wanted = {"name": "own", "grants": [{"role": "admin", "namespace": "sales"}]}
        own = raw.post("/v1/tokens", json=wanted).json()["text"]
        admin.set_quota("sales", "schedules", 1, reason="the pilot")
        with Client(one.url, token=own) as owner:
            assert [(use.quota, use.limit) for use in owner.quotas("sales")] == [("schedules", 1)]
            with pytest.raises(ForbiddenError):
                owner.set_quota("sales", "schedules", 100)
            with pytest.raises(ForbiddenError):
                owner.quotas("other")
        owned = {"Authorization": f"Bearer {own}"}
        assert raw.put("/v1/apps/sales/one", json=app(2), headers=owned).status_code == 403

        changes = raw.get("/v1/audit", params={"limit": 100}).json()["entries"]

    [set_by_admin] = [
        each for each in changes if each["target"].endswith("/quotas/schedules") and "status" in each["detail"]
    ]
    assert set_by_admin["caller"] == "token:admin"
    assert {"status": 200, "reason": "the pilot"}.items() <= set_by_admin["detail"].items()

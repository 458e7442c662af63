"""The client beside a real API: what it sends, what it makes of the answers, and when it sends again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.client import AsyncClient, Client
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    RevisionChangedError,
    UnauthenticatedError,
    UnavailableError,
)
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.emit.draft import custom, partitions_added
from streamsched.roles.api import api_services
from streamsched.roles.services import Services
from tests.integration.api.conftest import APP
from tests.support.api_routes import api_routes
from tests.support.served_api import served_api

pytestmark = pytest.mark.postgres

WEEKLY = "default.flights.weekly"
DEFINITION = {"program": "join", "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 3}}
WAITING = {"application": "flights", "program": "join", "trigger": DEFINITION["trigger"]}


class Unreliable(httpx.AsyncBaseTransport):
    """A way to an API whose answers get lost: the next `lost` requests are carried out and then fail."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.lost = 0
        self.sent: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self.sent.append(f"{request.method} {request.url.path}")
        if self.lost:
            self.lost -= 1
            raise httpx.ReadError("the connection was closed")
        return response


@pytest.fixture
def way(services: Services) -> Unreliable:
    return Unreliable(httpx.ASGITransport(app=make_api(api_services(services), api_routes())))


@pytest.fixture
async def ours(deployed: httpx.AsyncClient, way: Unreliable) -> AsyncIterator[AsyncClient]:
    """A client of an API that knows the app `default.flights`."""
    async with AsyncClient("http://localhost", token="", pauses=(0.0, 0.0), transport=way) as client:
        yield client


async def test_schedules_are_listed_read_changed_paused_and_resumed(ours: AsyncClient) -> None:
    [listed] = [each async for each in ours.schedules(namespace="default")]
    read = await ours.schedule(WEEKLY)
    assert (listed.id, read.state, read.program) == (WEEKLY, "enabled", "join")

    changed = await ours.put_schedule(WEEKLY, DEFINITION, etag=read.etag)

    assert changed.generation == read.generation + 1
    with pytest.raises(RevisionChangedError) as late:
        await ours.put_schedule(WEEKLY, DEFINITION, etag=read.etag)
    assert late.value.revision == str(changed.generation)
    again = await ours.put_schedule(WEEKLY, {**DEFINITION, "description": "of a week"}, etag=changed.etag)
    assert again.definition["description"] == "of a week"
    assert (await ours.pause(WEEKLY, mode="drain", note="ann: tests")).state == "paused"
    assert [each.id async for each in ours.schedules(states=["paused"])] == [WEEKLY]
    assert (await ours.resume(WEEKLY, reason="ann")).state == "enabled"


async def test_a_submission_with_a_key_is_one_job_and_says_why_it_waits(ours: AsyncClient) -> None:
    first = await ours.run_schedule(WEEKLY, arguments={"mode": "quick"}, reason="ann", idempotency_key="k1")
    again = await ours.run_schedule(WEEKLY, arguments={"mode": "quick"}, reason="ann", idempotency_key="k1")
    other = await ours.run_program("default.flights.join")

    assert (again.id, first.repeated, again.repeated, other.id == first.id) == (first.id, False, True, False)
    job, why = await ours.job(first.id), await ours.why(first.id)
    assert (str(job.schedule), job.outcome, why.job, bool(why.summary)) == (WEEKLY, None, first.id, True)
    assert [each.id async for each in ours.jobs(schedule=WEEKLY)] == [first.id]
    with pytest.raises(ConflictError):
        await ours.rerun(first.id)
    with pytest.raises(ConflictError):
        await ours.run_schedule(WEEKLY, arguments={"mode": "slow"}, idempotency_key="k1")


async def test_runs_are_waited_for_until_they_end(ours: AsyncClient, deployed: httpx.AsyncClient) -> None:
    run = (await deployed.post("/v1/programs/default.flights.join/runs", json={"now": True})).json()["run"]
    with pytest.raises(TimeoutError, match="PENDING after 0 s"):
        await ours.wait(run, timeout=0)

    assert (await ours.kill(run, reason="ann", at_once=True)).id == run

    ended = await ours.wait(run, timeout=60)
    assert (ended.id, ended.state, ended.ended) == (run, "KILLED", True)
    assert [each.state async for each in ours.runs(program="default.flights.join")] == ["KILLED"]


async def test_a_backfill_is_started_once_and_changed(deployed: httpx.AsyncClient, ours: AsyncClient) -> None:
    daily = {**WAITING, "name": "daily", "trigger": {"type": "TIME", "cronExpression": "0 3 * * *"}}
    made = await deployed.post("/v1/schedules", json=daily)
    assert made.status_code == 201, made.text
    span = {"from": "2026-03-01", "to": "2026-03-03", "reason": "ann"}

    started = await ours.start_backfill("default.flights.daily", span, idempotency_key="b1")

    assert (await ours.start_backfill("default.flights.daily", span, idempotency_key="b1")).id == started.id
    assert ((await ours.pause_backfill(started.id)).state, started.counts.items) == ("PAUSED", 3)
    assert (await ours.resume_backfill(started.id)).state == "RUNNING"
    assert (await ours.cancel_backfill(started.id, reason="ann")).state == "CANCELLED"
    assert [each.id async for each in ours.backfills(namespace="default")] == [(await ours.backfill(started.id)).id]


async def test_events_are_acknowledged_and_what_is_refused_is_named(ours: AsyncClient) -> None:
    accepted = await ours.emit(partitions_added("flights", ["day=2013-01-01"], event_id="e1"), custom("nobody"))
    assert (accepted.events, accepted.ids[0], accepted.unheard) == (2, "e1", ("event:default.nobody",))
    wrong = Event("", "test", datetime.now(UTC), CustomHappened(EventName("default", "nobody"), {}))

    with pytest.raises(RefusedError) as refused:
        await ours.emit(custom("nobody"), wrong)

    assert (refused.value.accepted, refused.value.refusals[0].index) == (1, 1)
    with pytest.raises(RefusedError):
        await ours.emit(wrong)


async def test_a_quota_is_set_seen_and_removed(ours: AsyncClient) -> None:
    made = await ours.set_quota("default", "schedules", 1, reason="the pilot")

    assert (made.quota, made.limit, made.used, made.reason) == ("schedules", 1, 1.0, "the pilot")
    assert await ours.quotas("default") == (made,)
    with pytest.raises(InvalidError):
        await ours.set_quota("default", "pods", 1)
    assert await ours.unset_quota("default", "schedules") == made
    with pytest.raises(NotFoundError):
        await ours.unset_quota("default", "schedules")


async def test_webhooks_are_created_listed_disabled_and_deleted(ours: AsyncClient) -> None:
    made = await ours.create_webhook("default", "alerts", "https://hooks.example.com/in", {"changes": ["run.failed"]})
    assert (made.signing_secret or "").startswith("whsec_")
    assert (made.signing_secret or "") not in repr(made)
    found = await ours.webhook("default", "alerts")
    assert (found.name, found.enabled, found.queued, found.signing_secret) == ("alerts", True, 0, None)
    assert [each.name async for each in ours.webhooks("default")] == ["alerts"]
    with pytest.raises(ConflictError):
        await ours.create_webhook("default", "alerts", "https://hooks.example.com/in")
    moved = await ours.change_webhook("default", "alerts", {"url": "https://other.example.com/in"})
    assert (moved.url, moved.signing_secret) == ("https://other.example.com/in", None)
    renewed = await ours.change_webhook("default", "alerts", {"secret": None})
    assert renewed.signing_secret not in (None, made.signing_secret)
    assert not (await ours.disable_webhook("default", "alerts")).enabled
    assert (await ours.enable_webhook("default", "alerts")).enabled
    await ours.delete_webhook("default", "alerts")
    assert [each async for each in ours.webhooks("default")] == []


async def test_pages_follow_each_other(
    ours: AsyncClient, deployed: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsched.client.calls.PAGE", 2)
    for name in ("a", "b", "c", "d"):
        assert (await deployed.post("/v1/schedules", json={**WAITING, "name": name})).status_code == 201

    found = [each.id async for each in ours.schedules()]

    assert found == [*(f"default.flights.{name}" for name in "abcd"), WEEKLY]


async def test_a_problem_is_an_error_with_its_parts(ours: AsyncClient) -> None:
    with pytest.raises(NotFoundError) as missing:
        await ours.schedule("default.flights.none")
    assert (missing.value.kind, missing.value.name) == ("schedule", "default.flights.none")
    with pytest.raises(InvalidError) as wrong:
        await ours.put_schedule(WEEKLY, {"program": "join", "trigger": {"type": "PARTITION", "dataset": "flights"}})
    assert wrong.value.path == "$.trigger.numPartitions"


async def test_a_request_whose_answer_was_lost_is_sent_again_if_that_changes_nothing(
    ours: AsyncClient, way: Unreliable
) -> None:
    way.lost = 2
    first = await ours.run_schedule(WEEKLY, arguments={"a": "1"})
    assert (first.repeated, way.sent) == (True, [f"POST /v1/schedules/{WEEKLY}/runs"] * 3)
    way.lost = 1
    assert (await ours.emit(custom("nobody"))).events == 1
    way.lost, way.sent = 1, []
    with pytest.raises(UnavailableError, match="the connection was closed"):
        await ours.pause(WEEKLY)
    assert (len(way.sent), (await ours.schedule(WEEKLY)).state) == (1, "paused")
    way.lost = 3
    with pytest.raises(UnavailableError):
        await ours.schedule(WEEKLY)


def test_the_blocking_client_and_its_token(database: str) -> None:
    with served_api(database) as api, httpx.Client(base_url=api.url, timeout=60) as raw:
        raw.headers["Authorization"] = f"Bearer {api.token}"
        assert raw.put("/v1/apps/default/flights", json=APP).status_code == 200
        with Client(api.url, token="ss_wrong", pauses=()) as stranger, pytest.raises(UnauthenticatedError):
            stranger.schedule(WEEKLY)
        with Client(api.url, token=api.token) as client:
            assert [each.id for each in client.schedules()] == [WEEKLY]
            changed = client.put_schedule(WEEKLY, DEFINITION, etag=client.schedule(WEEKLY).etag)
            assert client.pause(WEEKLY).generation == changed.generation + 1
            assert client.resume(WEEKLY).state == "enabled"
            job = client.run_schedule(WEEKLY)
            assert (client.why(job.id).job, [each.id for each in client.jobs(schedule=WEEKLY)]) == (job.id, [job.id])
            assert client.emit(partitions_added("flights", ["day=2013-01-01"])).events == 1
            assert list(client.runs()) == []


async def test_another_server_and_none_at_all_are_said_to_be_so() -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<html>"})

    async with AsyncClient("http://localhost", token="", transport=httpx.ASGITransport(app=page)) as client:
        with pytest.raises(ConfigurationError, match="is no API of streamsched"):
            await client.schedule(WEEKLY)
    with pytest.raises(ConfigurationError, match="is not the URL of an API"):
        AsyncClient("postgresql://localhost/x")
    with Client("http://127.0.0.1:9", token="", pauses=(0.0,)) as unserved, pytest.raises(UnavailableError):
        unserved.pause(WEEKLY)


def untyped(kind: type[Any]) -> dict[str, Any]:
    return {name: kind.__dict__[name].__doc__ for name in kind.__dict__ if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    assert untyped(Client) == untyped(AsyncClient)

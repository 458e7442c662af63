"""CDAP's apps, names of any form, and changes that meet, over its addresses on real PostgreSQL."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx
import pytest

from streamsched.roles.services import Services
from streamsched.testing.clock import SettableClock
from tests.integration.api.test_cdap_api import APP, BODY, JOIN, plain, put

pytestmark = pytest.mark.postgres


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(datetime(2024, 1, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize("name", ["pipeline.ns.pipeline.ns", "a b~2E é%#?", ".."])
async def test_a_schedule_has_a_name_of_any_form(deployed: httpx.AsyncClient, name: str) -> None:
    """As CDAP names the schedules of pipelines that start pipelines."""
    at = f"{APP}/schedules/{quote(name, safe='')}" if name != ".." else f"{APP}/schedules/%2E%2E"
    time = {"type": "TIME", "cronExpression": "0 4 * * *"}
    assert (await deployed.put(at, json={"program": JOIN, "trigger": time})).status_code == 200
    assert (await deployed.post(f"{at}/update", json={"description": "d"})).status_code == 200
    assert (await deployed.post(f"{at}/enable")).status_code == 200

    shown = (await deployed.get(at)).json()
    assert (shown["name"], shown["description"], shown["status"]) == (name, "d", "SCHEDULED")
    listed = (await deployed.get(f"{APP}/schedules")).json()
    assert name in [each["name"] for each in listed]
    (due,) = (await deployed.get(f"{APP}/workflows/join/nextruntime")).json()
    assert name in due["id"]
    found = (await deployed.get("/v1/schedules", params={"namespace": "default"})).json()
    (known,) = [each["id"] for each in found["schedules"] if each["name"] == name]
    assert (await deployed.get(f"/v1/schedules/{known}")).json()["name"] == name
    assert (await deployed.delete(at)).status_code == 200
    assert plain(await deployed.get(at)) == (404, f"'schedule:default.flights.-SNAPSHOT.{name}' was not found.")


async def test_properties_that_are_no_texts_become_texts(deployed: httpx.AsyncClient) -> None:
    await put(deployed, properties={"a": 1, "b": True, "c": 1.5, "d": "x"})

    shown = (await deployed.get(f"{APP}/schedules/nightly")).json()

    assert shown["properties"] == {"a": "1", "b": "true", "c": "1.5", "d": "x"}
    body = {**BODY, "properties": {"a": [1]}}
    status, said = plain(await deployed.put(f"{APP}/schedules/other", json=body))
    assert (status, said.split(":")[0]) == (400, "$.properties.a")


async def test_an_app_is_shown_with_its_programs_schedules_and_datasets(deployed: httpx.AsyncClient) -> None:
    await put(deployed)

    shown = (await deployed.get(APP)).json()

    assert (shown["name"], shown["appVersion"]) == ("flights", "-SNAPSHOT")
    assert [each["name"] for each in shown["programs"]] == ["join", "report"]
    assert shown["schedules"] == (await deployed.get(f"{APP}/schedules")).json()
    assert {"name": "lines", "type": "partitionedFileSet"} in shown["datasets"]
    assert len({each["name"] for each in shown["datasets"]}) == len(shown["datasets"])
    assert (await deployed.get("/v3/apps/flights")).json() == shown
    assert (await deployed.get("/v3/apps/flights/schedules/nightly")).json()["name"] == "nightly"
    assert plain(await deployed.get("/v3/apps/none")) == (404, "'application:default.none.-SNAPSHOT' was not found.")


async def test_a_failure_is_500_in_plain_text(deployed: httpx.AsyncClient, services: Services) -> None:
    await services.pool.execute("ALTER TABLE apps RENAME TO away")

    status, said = plain(await deployed.get("/v3/apps/flights"))

    assert status == 500
    assert said


async def test_apps_are_listed_in_pages(deployed: httpx.AsyncClient) -> None:
    for name in ("alpha", "Beta", "gamma"):
        app = {"programs": {"p": {"type": "bash", "command": "true"}}}
        assert (await deployed.put(f"/v1/apps/default/{name}", json=app)).status_code == 200
    at = "/v3/namespaces/default/apps"

    async def names(**query: str) -> tuple[list[str], str | None]:
        found = (await deployed.get(at, params=query)).json()
        return [each["name"] for each in found["applications"]], found.get("nextPageToken")

    assert [each["name"] for each in (await deployed.get(at)).json()] == ["Beta", "alpha", "flights", "gamma"]
    assert await names(pageSize="3") == (["Beta", "alpha", "flights"], "flights")
    assert await names(pageSize="3", pageToken="flights") == (["gamma"], None)
    assert await names(pageSize="4") == (["Beta", "alpha", "flights", "gamma"], None)
    assert await names(pageSize="1", nameFilter="A") == (["Beta"], "Beta")
    assert await names(pageSize="9", nameFilter="BETA", nameFilterType="EQUALS") == ([], None)
    assert await names(pageSize="9", nameFilter="BETA", nameFilterType="EQUALS_IGNORE_CASE") == (["Beta"], None)
    assert [each["name"] for each in (await deployed.get(at, params={"nameFilter": "ight"})).json()] == ["flights"]
    for wrong in ({"pageSize": "0"}, {"pageSize": "1001"}, {"pageToken": "a b"}, {"nameFilterType": "no"}):
        assert (await deployed.get(at, params=wrong)).status_code == 400


async def test_of_updates_at_once_none_is_lost(deployed: httpx.AsyncClient) -> None:
    """Each changes another member; a replacement over the other API counts as one."""
    await put(deployed)
    at, native = f"{APP}/schedules/nightly", "/v1/schedules/default.flights.nightly"
    for number in range(10):
        whole = (await deployed.get(native)).json()
        wanted = {name: whole[name] for name in ("program", "trigger")} | {"properties": {"n": str(number)}}
        answers = await asyncio.gather(
            deployed.put(native, json=wanted),
            deployed.post(f"{at}/update", json={"timeoutMillis": 1000 + number}),
            deployed.post(f"{at}/update", json={"description": f"d{number}"}),
        )
        assert {each.status_code for each in answers} == {200}, [each.text for each in answers]
        await asyncio.gather(
            deployed.post(f"{at}/update", json={"timeoutMillis": 2000 + number}),
            deployed.post(f"{at}/update", json={"description": f"e{number}"}),
        )

        shown = (await deployed.get(at)).json()
        assert shown["properties"] == {"n": str(number)}  # neither update took the replacement back
        assert (shown["timeoutMillis"], shown["description"]) == (2000 + number, f"e{number}")


async def test_a_pause_that_keeps_is_suspended_already(deployed: httpx.AsyncClient) -> None:
    await put(deployed)
    at, native = f"{APP}/schedules/nightly", "/v1/schedules/default.flights.nightly"
    await deployed.post(f"{at}/enable")
    assert (await deployed.post(f"{native}/pause", json={"keep": True})).status_code == 200
    paused = (await deployed.get(native)).json()

    for action in ("suspend", "disable"):
        assert plain(await deployed.post(f"{at}/{action}")) == (
            409,
            "Schedule 'default.flights.nightly' is already paused",
        )

    assert (await deployed.get(f"{at}/status")).json() == {"status": "SUSPENDED"}
    assert (await deployed.get(native)).json() == paused
    assert (await deployed.post(f"{at}/resume")).status_code == 200


async def test_what_was_suspended_in_a_span_is_enabled_again(deployed: httpx.AsyncClient, clock: SettableClock) -> None:
    """As CDAP's administrators do it after an upgrade."""
    minutes: dict[str, int] = {}
    for name in ("before", "first", "last", "paused", "after"):
        await put(deployed, name)
        await deployed.post(f"{APP}/schedules/{name}/enable")
    for minute, name in enumerate(("before", "first", "paused", "last", "after")):
        minutes[name] = round(clock.now().timestamp() * 1000)
        at = f"/v1/schedules/default.flights.{name}/pause" if name == "paused" else f"{APP}/schedules/{name}/suspend"
        assert (await deployed.post(at, json={} if name == "paused" else None)).status_code == 200, minute
        clock.advance(timedelta(minutes=1))

    span = f"start-time-millis={minutes['first']}&end-time-millis={minutes['after']}"
    answer = await deployed.put(f"/v3/namespaces/default/schedules/re-enable?{span}")
    assert (answer.status_code, answer.text) == (200, "")
    other = await deployed.put(f"/v3/namespaces/another/schedules/re-enable?{span}")
    assert other.status_code == 200

    listed = (await deployed.get(f"{APP}/schedules?schedule-status=SUSPENDED")).json()
    assert [each["name"] for each in listed] == ["after", "before"]
    again = await deployed.put(f"/v3/namespaces/default/schedules/re-enable?{span}")
    assert (again.status_code, again.text) == (200, "")
    assert plain(await deployed.put("/v3/namespaces/default/schedules/re-enable"))[0] == 400

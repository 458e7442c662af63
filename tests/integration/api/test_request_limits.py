"""Requests at and over their limits (`api.bounds.request_limits`): too much is refused before it is worked on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.roles.api import api_services
from streamsched.roles.services import Services
from streamsched.store.catalog.catalog_reader import CatalogReader
from tests.support.api_routes import api_routes
from tests.support.described_answers import api_document, check_answer, operations

pytestmark = pytest.mark.postgres

PROGRAM = {"appId": "ticking", "programType": "WORKFLOW", "programId": "join"}
APP: dict[str, Any] = {
    "programs": [{"name": name, "type": "bash", "command": "true"} for name in ("join", "idle")],
    "schedules": [
        {"name": f"s{n}", "program": "join", "trigger": {"type": "TIME", "cronExpression": f"{n} 4 * * *"}}
        for n in range(30)
    ],
}


@pytest.fixture
async def client(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """Of an API with the default limit of bytes."""
    api = make_api(
        api_services(replace(services, settings=services.settings.replace(body_limit=16 << 20))), api_routes()
    )
    transport = httpx.ASGITransport(app=api, raise_app_exceptions=False)
    hooks = {"response": [check_answer]}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", event_hooks=hooks, timeout=60
    ) as client:
        yield client


def operation(method: str, path: str) -> dict[str, Any]:
    return next(found for verb, where, found in operations(api_document()) if (verb, where) == (method, path))


def event(number: int, name: str = "q") -> dict[str, Any]:
    return {"id": f"e{number}", "source": "s", "time": "2026-03-01T00:00:00Z", "type": "custom", "data": {"name": name}}


async def test_a_list_of_events_has_at_most_10_000(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/events?check=none", json=[event(n) for n in range(10_001)])
    assert answer.status_code == 413
    assert answer.json()["detail"] == "the list has 10,001 elements; send at most 10,000 in each request"

    answer = await client.post("/v1/events?check=none", json=[event(n) for n in range(10_000)])
    assert (answer.status_code, answer.json()["accepted"], answer.json()["errors"]) == (202, 10_000, [])


async def test_an_answer_names_the_first_1000_refused_events_and_counts_all(client: httpx.AsyncClient) -> None:
    listed = [event(0), *[1] * 999, event(1), *(event(n, "a/b" * 10_000) for n in range(30)), *[1] * 500]
    answer = await client.post("/v1/events?check=none", json=listed)
    found = answer.json()
    assert (answer.status_code, found["accepted"], found["ids"], found["refused"]) == (202, 2, ["e0", "e1"], 1529)
    assert [each["index"] for each in found["errors"]] == [*range(1, 1000), 1001]
    assert len(answer.content) < 200_000


@pytest.mark.parametrize("path", ["/v1/events", "/v3/namespaces/default/nextruntime", "/v1/schedules"])
async def test_a_million_values_are_not_decoded(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(
        path, content=b"[" + b"1," * 1_400_000 + b"1]", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413
    assert len(answer.content) < 1000


async def test_the_ticks_of_1000_programs_are_one_query(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await client.put("/v1/apps/default/ticking", json=APP)
    assert answer.status_code == 200, answer.text

    async def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a query for each program")

    monkeypatch.setattr(CatalogReader, "program", refused)
    monkeypatch.setattr(CatalogReader, "schedules", refused)
    others = [{**PROGRAM, "programId": f"p{n}"} for n in range(996)]
    bad = [{**PROGRAM, "programType": "NONE"}, 1]
    answer = await client.post(
        "/v3/namespaces/default/nextruntime", json=[PROGRAM, {**PROGRAM, "programId": "idle"}, *bad, *others]
    )

    found = answer.json()
    assert [each["statusCode"] for each in found] == [200, 200, 400, 400, *[404] * 996]
    assert (len(found[0]["schedules"]), found[1]["schedules"]) == (30, [])

    answer = await client.post("/v3/namespaces/default/previousruntime", json=[PROGRAM] * 1001)
    assert (answer.status_code, answer.text) == (413, "the list has 1,001 elements; send at most 1,000 in each request")
    answer = await client.post("/v3/namespaces/default/nextruntime", json=[PROGRAM] * 700)
    assert (answer.status_code, answer.text) == (413, "these programs have more than 20,000 schedules; ask for fewer")


async def test_the_ticks_of_one_program_are_those_of_20_000_schedules(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.put("/v1/apps/default/ticking", json=APP)).status_code == 200
    program = "/v3/namespaces/default/apps/ticking/workflows/join"
    for kind in ("nextruntime", "previousruntime"):
        monkeypatch.setattr("streamsched.dialects.cdap.runtimes.MOST_TICKING", 30)
        assert (await client.get(f"{program}/{kind}")).status_code == 200
        monkeypatch.setattr("streamsched.dialects.cdap.runtimes.MOST_TICKING", 29)
        answer = await client.get(f"{program}/{kind}")
        assert (answer.status_code, answer.text) == (413, "this program has more than 29 enabled schedules")
        described = operation("GET", f"/v3/namespaces/{{namespace}}/apps/{{app}}/{{category}}/{{program}}/{kind}")
        assert described["x-limits"] == {"schedules": 20_000}


async def test_lists_of_cdap_are_sent_part_by_part(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    app = {**APP, "schedules": [*APP["schedules"], {**APP["schedules"][0], "name": "z", "program": "idle"}]}
    ended = {
        "type": "PROGRAM_STATUS",
        "programId": {"application": "ticking", "program": "join"},
        "programStatuses": ["COMPLETED"],
    }
    app["schedules"] += [{"name": f"e{n}", "program": "idle", "trigger": ended} for n in range(15)]
    answer = await client.put("/v1/apps/default/ticking", json=app)
    assert answer.status_code == 200, answer.text
    for n in range(14):
        assert (await client.put(f"/v1/apps/default/a{n:02}", json={**APP, "schedules": []})).status_code == 200
    monkeypatch.setattr("streamsched.api.streams.long_lists._PART", 7)
    most = 0

    async def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal most
        found = await schedules(*args, **kwargs)
        most = max(most, len(found))
        return found

    schedules = CatalogReader._schedules
    monkeypatch.setattr(CatalogReader, "_schedules", counted)
    base = "/v3/namespaces/default"
    waits = f"{base}/schedules/trigger-type/program-status?trigger-namespace-id=default&trigger-app-name=ticking"
    names = sorted([f"s{n}" for n in range(30)])
    waiting = sorted([f"e{n}" for n in range(15)])
    for path, expected in (
        (f"{base}/apps/ticking/schedules", [*waiting, *names, "z"]),
        (f"{base}/apps/ticking/workflows/join/schedules", names),
        (f"{base}/apps/a00/schedules", []),
        (f"{waits}&trigger-program-type=workflows&trigger-program-name=join", waiting),
        (f"{base}/apps", [*(f"a{n:02}" for n in range(14)), "ticking"]),
    ):
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert [each["name"] for each in answer.json()] == expected, path
    assert most == 7
    assert [each["name"] for each in (await client.get(f"{base}/apps/ticking")).json()["programs"]] == ["idle", "join"]
    assert (await client.get(f"{base}/apps/none/schedules")).status_code == 404

"""Extremes over HTTP: a refusal says where, and a damaged row hides no other."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from streamsched.roles.services import Services

pytestmark = pytest.mark.postgres

WEEKLY = "/v1/schedules/default.flights.weekly"
EVENTS = {"type": "PARTITION", "dataset": "flights", "numPartitions": 7}


_BEYOND: Final[list[tuple[dict[str, Any], str]]] = [
    ({"trigger": {"type": "EVERY", "interval": "4000000d"}}, "$.trigger.interval"),
    ({"trigger": {"type": "AT", "instant": "9999-12-31T23:59:59Z"}}, "$.trigger.instant"),
    ({"timeout": "4000000d"}, "$.timeout"),
    ({"constraints": [{"type": "DELAY", "millisAfterTrigger": 10**15}]}, "$.constraints[0].millisAfterTrigger"),
    ({"constraints": [{"type": "RATE", "maxRuns": 1, "per": "4000000d"}]}, "$.constraints[0].per"),
    ({"constraints": [{"type": "GROUP", "group": "g", "limit": 2**32}]}, "$.constraints[0].limit"),
    ({"constraints": [{"type": "POOL", "pool": "p", "size": 2**32}]}, "$.constraints[0].size"),
    ({"pauseAfter": {"failures": 1, "lasting": "4000000d"}}, "$.pauseAfter.lasting"),
    ({"trigger": {"type": "TIME", "cronExpression": f"{'0,' * 9000}0 4 * * *"}}, "$.trigger.cronExpression"),
]


async def test_a_definition_beyond_the_limits_is_refused_with_its_path(deployed: httpx.AsyncClient) -> None:
    for fields, path in _BEYOND:
        before = (await deployed.get(WEEKLY)).json()

        answer = await deployed.put(WEEKLY, json={"program": "join", "trigger": EVENTS, **fields})

        assert (answer.status_code, answer.json()["path"]) == (400, path), answer.text
        assert (await deployed.get(WEEKLY)).json() == before


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"timeoutMillis": 10**15}, "$.timeoutMillis"),
        ({"trigger": {"type": "EVERY", "interval": "4000000d"}}, "$.trigger.interval"),
        ({"constraints": [{"type": "DELAY", "millisAfterTrigger": 10**15}]}, "$.constraints[0].millisAfterTrigger"),
    ],
)
async def test_cdaps_dialect_refuses_the_same(deployed: httpx.AsyncClient, fields: dict[str, Any], path: str) -> None:
    program = {"programName": "join", "programType": "WORKFLOW"}
    answer = await deployed.put(
        "/v3/namespaces/default/apps/flights/schedules/nightly",
        json={"program": program, "trigger": EVENTS, **fields},
    )
    assert answer.status_code == 400
    assert path in answer.text


_SET_BEYOND: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("/v1/groups/g", {"limit": 2**31}, "$.limit"),
    ("/v1/groups/g", {"limit": -1}, "$.limit"),
    ("/v1/pools/p", {"size": 2**63}, "$.size"),
    ("/v1/pools/p", {"size": 1, "age": "4000000d"}, "$.age"),
    (f"/v1/groups/{'g' * 300}", {"limit": 1}, "$"),
    (f"{WEEKLY}/priority", {"priority": 2**40}, "$.priority"),
]


async def test_what_is_set_online_has_the_same_limits(deployed: httpx.AsyncClient) -> None:
    for url, body, path in _SET_BEYOND:
        answer = await deployed.put(url, json=body)
        assert (answer.status_code, answer.json()["path"]) == (400, path)


@pytest.mark.parametrize("until", ["4000000d", "9999-12-31T23:59:59Z", "9" * 300 + "d"])
async def test_a_pause_ends_within_the_calendar(deployed: httpx.AsyncClient, until: str) -> None:
    answer = await deployed.post(f"{WEEKLY}/pause", json={"keep": True, "until": until})
    assert (answer.status_code, answer.json()["path"]) == (400, "$.until")


async def test_a_damaged_row_hides_no_other_and_its_job_is_explained(
    deployed: httpx.AsyncClient, services: Services
) -> None:
    second = {"name": "second", "application": "flights", "program": "join", "trigger": EVENTS}
    assert (await deployed.post("/v1/schedules", json=second)).status_code == 201
    pool = services.pool
    await pool.execute(
        "INSERT INTO jobs (id, schedule, generation, sequence, program, state, reason, satisfied_at, created_at, "
        "ready) SELECT id || '.1.1', id, 1, 1, program, 'PENDING_CONSTRAINT', '', now(), now(), '{\"v\": 99}' "
        "FROM schedules"
    )
    await pool.execute("UPDATE schedules SET definition = '{\"trigger\": 7}' WHERE id = 'default.flights.weekly'")

    listed = (await deployed.get("/v1/schedules")).json()["schedules"]
    assert [each["id"] for each in listed] == ["default.flights.second"]
    assert len((await deployed.get("/v1/jobs")).json()["jobs"]) == 2
    for name, wrong in (("weekly", "its schedule cannot be read"), ("second", "what satisfied it cannot be read")):
        answer = await deployed.get(f"/v1/jobs/default.flights.{name}.1.1/why")
        assert answer.status_code == 200
        assert wrong in answer.json()["summary"]

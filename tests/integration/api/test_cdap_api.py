"""CDAP's addresses, on real PostgreSQL: codes and bodies as its clients know them, and where they are better."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from streamsched.testing.clock import SettableClock

pytestmark = pytest.mark.postgres

GOLDEN = Path(__file__).parents[2] / "golden" / "cdap"
APP = "/v3/namespaces/default/apps/flights"
JOIN = {"programName": "join", "programType": "Workflow"}
LINES = {"type": "PARTITION", "dataset": {"dataset": "lines", "namespace": "default"}, "numPartitions": 5}
BODY = {"program": JOIN, "trigger": LINES}
AFTER_JOIN = {
    "type": "PROGRAM_STATUS",
    "programId": {"namespace": "default", "application": "flights", "program": "join"},
    "programStatuses": ["COMPLETED"],
}


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(datetime(2024, 1, 1, 12, tzinfo=UTC))


def plain(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.status_code, answer.text


async def put(client: httpx.AsyncClient, name: str = "nightly", at: str = APP, **body: Any) -> None:
    answer = await client.put(f"{at}/schedules/{name}", json={**BODY, **body})
    assert (answer.status_code, answer.text) == (200, "")


async def test_a_schedule_is_created_suspended_with_cdaps_defaults(deployed: httpx.AsyncClient) -> None:
    await put(deployed)

    shown = (await deployed.get(f"{APP}/schedules/nightly")).json()

    assert isinstance(shown.pop("lastUpdateTime"), int)
    assert shown == {
        "namespace": "default",
        "application": "flights",
        "applicationVersion": "-SNAPSHOT",
        "name": "nightly",
        "description": "",
        "program": {"programName": "join", "programType": "WORKFLOW"},
        "properties": {},
        "trigger": {**LINES, "dataset": {**LINES["dataset"], "entity": "DATASET"}},  # type: ignore[dict-item]
        "constraints": [],
        "timeoutMillis": 86_400_000,
        "status": "SUSPENDED",
    }


async def test_what_is_made_by_one_api_is_seen_by_the_other(deployed: httpx.AsyncClient) -> None:
    await put(deployed, description="every night")

    native = (await deployed.get("/v1/schedules/default.flights.nightly")).json()
    assert (native["description"], native["enabled"], native["timeout"]) == ("every night", False, "1d")
    weekly = (await deployed.get(f"{APP}/schedules/weekly")).json()
    assert (weekly["status"], weekly["timeoutMillis"]) == ("SCHEDULED", 2**63 - 1)


async def test_cdaps_own_example_is_taken_as_it_is(deployed: httpx.AsyncClient) -> None:
    detail = json.loads((GOLDEN / "schedule.json").read_text()) | {"program": JOIN}
    detail["constraints"][3]["timeZone"] = "PST"

    answer = await deployed.put(f"{APP}/schedules/nightly", json=detail)

    assert (answer.status_code, answer.text) == (200, "")
    shown = (await deployed.get(f"{APP}/schedules/nightly")).json()
    assert shown["trigger"] == detail["trigger"]
    assert shown["constraints"][3]["timeZone"] == "America/Los_Angeles"


async def test_enabling_and_disabling_twice_is_a_conflict(deployed: httpx.AsyncClient) -> None:
    await put(deployed)
    at = f"{APP}/schedules/nightly"
    for actions, status in ((("enable", "resume"), "SCHEDULED"), (("suspend", "disable"), "SUSPENDED")):
        first, second = [await deployed.post(f"{at}/{action}") for action in actions]
        assert (first.status_code, first.text) == (200, '"OK"')
        assert second.status_code == 409
        assert "already" in second.text
        assert (await deployed.get(f"{at}/status")).json() == {"status": status}
    assert plain(await deployed.post(f"{at}/dance")) == (
        400,
        "Action for schedules may only be 'enable', 'disable', 'suspend', or 'resume' but is 'dance'",
    )


async def test_an_update_replaces_what_it_names_and_keeps_the_rest(deployed: httpx.AsyncClient) -> None:
    await put(deployed, properties={"a": "1", "b": "2"}, description="old", timeoutMillis=5000)
    await deployed.post(f"{APP}/schedules/nightly/enable")

    answer = await deployed.post(f"{APP}/schedules/nightly/update", json={"properties": {"c": "3"}, "program": JOIN})

    assert (answer.status_code, answer.text) == (200, "")
    shown = (await deployed.get(f"{APP}/schedules/nightly")).json()
    assert (shown["properties"], shown["description"], shown["timeoutMillis"]) == ({"c": "3"}, "old", 5000)
    assert shown["status"] == "SCHEDULED"


async def test_an_update_to_what_is_shown_keeps_generation_and_accumulation(deployed: httpx.AsyncClient) -> None:
    await put(deployed)
    before = (await deployed.get("/v1/schedules/default.flights.nightly")).json()
    for body in ({}, (await deployed.get(f"{APP}/schedules/nightly")).json()):
        assert (await deployed.post(f"{APP}/schedules/nightly/update", json=body)).status_code == 200

    assert (await deployed.get("/v1/schedules/default.flights.nightly")).json() == before


async def test_an_update_never_changes_the_program(deployed: httpx.AsyncClient) -> None:
    await put(deployed)

    status, said = plain(
        await deployed.post(f"{APP}/schedules/nightly/update", json={"program": {**JOIN, "programName": "report"}})
    )

    assert status == 400
    assert "Must update the schedule 'default.flights.nightly' with the same program" in said


async def test_a_deleted_schedule_is_gone(deployed: httpx.AsyncClient) -> None:
    await put(deployed)
    at = f"{APP}/schedules/nightly"

    answer = await deployed.delete(at)

    assert (answer.status_code, answer.text) == (200, "")
    missing = (404, "'schedule:default.flights.-SNAPSHOT.nightly' was not found.")
    assert plain(await deployed.get(at)) == missing
    assert plain(await deployed.delete(at)) == missing
    assert plain(await deployed.get(f"{at}/status")) == missing
    assert plain(await deployed.post(f"{at}/enable")) == missing
    assert plain(await deployed.post(f"{at}/update", json={})) == missing


async def test_a_schedule_that_exists_is_a_conflict_once_its_program_was_found(deployed: httpx.AsyncClient) -> None:
    await put(deployed)

    status, said = plain(await deployed.put(f"{APP}/schedules/nightly", json=BODY))
    assert status == 409
    assert "'default.flights.nightly' already exists" in said
    unknown = {**BODY, "program": {**JOIN, "programName": "nobody"}}
    assert plain(await deployed.put(f"{APP}/schedules/nightly", json=unknown)) == (
        404,
        "'program:default.flights.-SNAPSHOT.nobody' was not found.",
    )


_BAD_BODIES: Final[list[tuple[bytes, str]]] = [
    (b"{nonsense", "$: Request body is invalid json: "),
    (b"", "$: Request body is invalid json: "),
    (b"[1]", "$: Expected a json object in the request body but received [1]"),
    (b"{}", "$.program: No program was specified for the schedule"),
    (json.dumps({**BODY, "trigger": None}).encode(), "$.trigger: No trigger was specified for the schedule"),
    (json.dumps({**BODY, "trigger": {"type": "MOON"}}).encode(), "$.trigger.type: unknown trigger type 'MOON'"),
    (
        json.dumps({**BODY, "trigger": {**LINES, "numPartitions": 0}}).encode(),
        "$.trigger.numPartitions: must be at least 1 but is 0",
    ),
    (json.dumps({**BODY, "name": "other"}).encode(), "$.name: Schedule name in the body of the request (other) "),
    (json.dumps({**BODY, "colour": "blue"}).encode(), "$.colour: unknown field"),
]


async def test_a_bad_body_is_400_in_plain_text_with_the_path(deployed: httpx.AsyncClient) -> None:
    for content, said in _BAD_BODIES:
        status, text = plain(await deployed.put(f"{APP}/schedules/nightly", content=content))
        assert (status, text[: len(said)]) == (400, said)
        assert (await deployed.get(f"{APP}/schedules/nightly")).status_code == 404


async def test_an_app_lists_its_schedules_by_name_and_by_what_was_asked(deployed: httpx.AsyncClient) -> None:
    await put(deployed, "b-time", trigger={"type": "TIME", "cronExpression": "0 4 * * *"})
    await put(deployed, "a-both", trigger={"type": "AND", "triggers": [LINES, AFTER_JOIN]})
    await put(deployed, "c-after", trigger=AFTER_JOIN, program={**JOIN, "programName": "report"})

    async def names(at: str) -> list[str]:
        answer = await deployed.get(at)
        assert answer.status_code == 200, answer.text
        return [each["name"] for each in answer.json()]

    assert await names(f"{APP}/schedules") == ["a-both", "b-time", "c-after", "weekly"]
    assert await names(f"{APP}/schedules?trigger-type=time") == ["b-time"]
    assert await names(f"{APP}/schedules?trigger-type=and") == ["a-both"]
    assert await names(f"{APP}/schedules?trigger-type=program-status&schedule-status=SCHEDULED") == []
    assert await names(f"{APP}/schedules?schedule-status=SCHEDULED") == ["weekly"]
    assert await names(f"{APP}/workflows/report/schedules") == ["c-after"]
    assert await names(f"{APP}/versions/1.0/spark/join/schedules") == ["a-both", "b-time", "weekly"]
    asked = (
        "/v3/namespaces/default/schedules/trigger-type/program-status?trigger-namespace-id=default&"
        "trigger-app-name=flights&trigger-program-type=workflows&trigger-program-name=join"
    )
    assert sorted(await names(asked)) == ["a-both", "c-after"]
    assert sorted(await names(asked.replace("/default/", "/another/"))) == ["a-both", "c-after"]
    assert await names(f"{asked}&trigger-program-statuses=FAILED,KILLED") == []
    assert await names(f"{asked}&trigger-program-statuses=RUNNING") == []
    assert await names(f"{asked}&trigger-program-statuses=INITIALIZING") == []
    assert sorted(await names(f"{asked}&trigger-program-statuses=COMPLETED,")) == ["a-both", "c-after"]
    assert sorted(await names(f"{asked}&trigger-program-statuses=COMPLETED")) == ["a-both", "c-after"]


_BAD_LISTS: Final[list[tuple[str, tuple[int, str]]]] = [
    ("apps/flights/schedules?trigger-type=TIME", (400, "Unknown category name 'TIME'. Must be one of time,")),
    (
        "apps/flights/schedules?schedule-status=on",
        (400, "Invalid schedule status 'on'. Must be one of SCHEDULED,SUSPENDED."),
    ),
    ("apps/nothing/schedules", (404, "'application:default.nothing.-SNAPSHOT' was not found.")),
    ("apps/flights/workflows/nothing/schedules", (404, "'program:default.flights.-SNAPSHOT.nothing' was not")),
    ("apps/flights/services/join/schedules", (404, "'program:default.flights.-SNAPSHOT.join' was not found.")),
    ("apps/flights/poems/join/schedules", (400, "$: Unknown category name 'poems'. Must be one of workflows,")),
    ("schedules/trigger-type/program-status", (400, "Must specify trigger-namespace-id as a query param")),
    ("apps/fl ights/schedules", (400, "$: ")),
    ("nothing", (404, "Not Found")),
]


async def test_what_a_list_cannot_answer_is_said_in_plain_text(deployed: httpx.AsyncClient) -> None:
    for at, answered in _BAD_LISTS:
        status, said = plain(await deployed.get(f"/v3/namespaces/default/{at}"))
        assert (status, said[: len(answered[1])]) == answered


async def test_only_enabled_times_have_a_next_tick_and_those_that_ticked_a_previous_one(
    deployed: httpx.AsyncClient, clock: SettableClock
) -> None:
    hourly = {"type": "TIME", "cronExpression": "0 * * * *"}
    daily = {"type": "TIME", "cronExpression": "30 4 * * ?"}
    await put(deployed, "hourly", trigger=hourly)
    await put(deployed, "both", trigger={"type": "OR", "triggers": [daily, hourly, LINES]})
    await put(deployed, "asleep", trigger=hourly)
    await put(deployed, "elsewhere", trigger=hourly, program={**JOIN, "programName": "report"})
    for name in ("hourly", "both", "elsewhere"):
        assert (await deployed.post(f"{APP}/schedules/{name}/enable")).status_code == 200
    at = "DEFAULT.default:flights:-SNAPSHOT:WORKFLOW:join:"
    noon = round(clock.now().timestamp() * 1000)

    async def reported(word: str) -> dict[str, int]:
        found = (await deployed.get(f"{APP}/workflows/join/{word}runtime")).json()
        return {each["id"]: (each["time"] - noon) // 60_000 for each in found}

    assert await reported("next") == {f"{at}hourly": 60, f"{at}both:0 * * * *": 60, f"{at}both:30 4 * * ?": 990}
    assert await reported("previous") == {}
    clock.advance(timedelta(minutes=150))
    assert await reported("previous") == {f"{at}hourly": 120, f"{at}both:0 * * * *": 120}

    asked = [
        {"appId": "flights", "programType": "Workflow", "programId": "report"},
        {"appId": "flights", "programType": "Spark", "programId": "nobody"},
        {"appId": "flights", "programType": "Poem", "programId": "join"},
        {"appId": "flights"},
    ]
    answer = await deployed.post("/v3/namespaces/default/nextruntime", json=asked)
    assert answer.status_code == 200
    first, *wrong = answer.json()
    assert first == {
        **asked[0],
        "statusCode": 200,
        "schedules": [{"id": at.replace("join", "report") + "elsewhere", "time": noon + 180 * 60_000}],
    }
    assert [(each["statusCode"], each["error"][:24]) for each in wrong] == [
        (404, "'program:default.flights"),
        (400, "$: Unknown category name"),
        (400, "$[3].programType: is mis"),
    ]


async def test_versions_of_an_app_have_the_same_schedules(deployed: httpx.AsyncClient) -> None:
    await put(deployed, at=f"{APP}/versions/2.0")
    assert (await deployed.post(f"{APP}/versions/1.0/schedules/nightly/enable")).status_code == 200

    shown = [await deployed.get(f"{at}/schedules/nightly") for at in (APP, f"{APP}/versions/-SNAPSHOT")]

    assert shown[0].json()["status"] == "SCHEDULED"
    assert shown[0].json() == shown[1].json()


async def test_the_older_form_is_taken_and_shown_when_asked_for(deployed: httpx.AsyncClient) -> None:
    spec = json.loads((GOLDEN / "specification_time.json").read_text()) | {"program": {**JOIN, "programType": "SPARK"}}

    assert (await deployed.put(f"{APP}/schedules/nightly", json=spec)).status_code == 200

    shown = (await deployed.get(f"{APP}/schedules/nightly?format=spec")).json()
    assert shown == {**spec, "program": {"programName": "join", "programType": "WORKFLOW"}}
    listed = (await deployed.get(f"{APP}/schedules?format=spec")).json()
    assert [each["schedule"]["name"] for each in listed] == ["nightly"]
    assert (await deployed.get(f"{APP}/schedules/weekly?format=spec")).status_code == 404


async def test_a_strict_client_gets_and_sends_only_what_cdap_has_words_for(deployed: httpx.AsyncClient) -> None:
    await put(deployed, "hourly", trigger={"type": "EVERY", "interval": "1h"})
    await put(deployed)

    listed = (await deployed.get(f"{APP}/schedules?strict=true")).json()
    assert [each["name"] for each in listed] == ["nightly", "weekly"]
    assert plain(await deployed.put(f"{APP}/schedules/x?strict=true", json={**BODY, "overlap": "coalesce"})) == (
        400,
        "$.overlap: is not part of CDAP's API, and strict=true refuses extensions",
    )


async def test_the_addresses_are_documented(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/v1/openapi.json")).json()["paths"]

    at = "/v3/namespaces/{namespace}/apps/{app}/schedules/{schedule}"
    assert set(paths[at]) == {"get", "put", "delete"}
    assert paths[at]["put"]["requestBody"]["content"]["application/json"]["example"]["trigger"]["type"] == "PARTITION"
    versioned = [path for path in paths if path.startswith("/v3/") and "/versions/{version}" in path]
    assert {path.replace("/versions/{version}", "") for path in versioned} <= paths.keys()
    assert sum(len(paths[path]) for path in versioned) == 16


async def test_an_app_is_deleted_with_its_schedules_and_programs(deployed: httpx.AsyncClient) -> None:
    await put(deployed)

    answer = await deployed.delete(APP)
    assert (answer.status_code, answer.text) == (200, "")

    missing = (404, "'application:default.flights.-SNAPSHOT' was not found.")
    assert (await deployed.get(f"{APP}/schedules/nightly")).status_code == 404
    assert plain(await deployed.get(f"{APP}/schedules")) == missing
    assert plain(await deployed.delete(APP)) == missing
    assert (await deployed.get("/v1/programs/default.flights.join")).status_code == 404


@pytest.mark.parametrize("body", ["7" + " " * 78 + "é", '"' + "x" * 78 + 'é"', "[" + "1," * 39 + '"é"]'])
async def test_a_body_that_is_no_object_is_refused_wherever_a_letter_is_cut(
    deployed: httpx.AsyncClient, body: str
) -> None:
    answer = await deployed.put(f"{APP}/schedules/x", content=body.encode())

    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("odd", [None, 7, "join", ["join"]])
async def test_one_odd_element_of_a_batch_fails_alone(deployed: httpx.AsyncClient, odd: object) -> None:
    asked = [odd, {"appId": "flights", "programType": "Workflow", "programId": "join"}]

    first, second = (await deployed.post("/v3/namespaces/default/nextruntime", json=asked)).json()

    assert (first["statusCode"], second["statusCode"]) == (400, 200)
    assert first["error"].startswith("$[0]: must be an object but is ")


async def test_over_cdaps_addresses_each_commit_counts_and_each_satisfaction_is_a_job(
    deployed: httpx.AsyncClient,
) -> None:
    await put(deployed)

    shown = (await deployed.get("/v1/schedules/default.flights.nightly")).json()

    assert shown["overlap"] == "queue"
    assert shown["trigger"]["trigger"]["distinct"] is False

"""The OpenAPI document describes every route and every query parameter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import jsonschema
import orjson
import pytest

from streamsched.codec import event as event_codec
from streamsched.codec.backfills import request_from_json as backfill_from_json
from streamsched.codec.json.reading import Fields
from streamsched.codec.schedules import pause as pause_codec
from streamsched.codec.schedules.schedule import app_from_json, submitted_schedule_from_json
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.names import ScheduleRef
from streamsched.wire.access import NEW_TOKEN
from streamsched.wire.queues import POLICY
from streamsched.wire.task_requests import request_from_json as task_from_json
from tests.support.described_answers import api_document, operations, valid

DOCUMENT = api_document()
OPERATIONS = {f"{method} {path}": operation for method, path, operation in sorted(operations(DOCUMENT), key=str)}
#: Bodies of the examples are read by the codecs that their routes use.
READERS: dict[str, Callable[[Any], object]] = {
    "App": lambda body: app_from_json({"application": "flights", **body}),
    "Trigger": trigger_codec.from_json,
    "NewSchedule": submitted_schedule_from_json,
    "ChangedSchedule": lambda body: submitted_schedule_from_json({"application": "flights", "name": "x", **body}),
    "PauseRequest": lambda body: pause_codec.from_json({"mode": "keep", "until": "2h", "note": "x", **body}, now=NOW),
    "NewBackfill": lambda body: backfill_from_json(ScheduleRef("default", "flights", "weekly"), "t", body),
    "QueuePolicy": POLICY.read,
    "NewTasks": lambda body: task_from_json(Fields(body), NOW),
    "NewToken": NEW_TOKEN.read,
    "AnyEvents": lambda body: event_codec.decode(orjson.dumps(body), fallback_id="x", fallback_time=NOW),
    "CloudEvent": lambda body: event_codec.decode(orjson.dumps(body), fallback_id="x", fallback_time=NOW),
}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_route_has_a_written_summary_and_a_description(name: str) -> None:
    operation = OPERATIONS[name]
    generated = operation["operationId"].partition("_v")[0].replace("_", " ").title()

    assert operation["summary"] != generated, "the summary is derived from the function's name"
    assert operation["description"].strip().endswith((".", "`", ":"))
    assert operation["tags"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_query_parameter_has_a_description(name: str) -> None:
    parameters = [each for each in OPERATIONS[name].get("parameters", ()) if each["in"] == "query"]

    assert [each["name"] for each in parameters if not each.get("description")] == []


def test_summaries_of_one_tag_differ() -> None:
    seen = [(tag, each["summary"]) for each in OPERATIONS.values() for tag in each["tags"]]

    assert sorted(seen) == sorted(set(seen))


def test_operation_ids_are_unique() -> None:
    seen = [each["operationId"] for each in OPERATIONS.values()]

    assert len(seen) == len(set(seen))


def test_the_document_is_openapi_3_1_with_valid_schemas() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema.get("examples") or "enum" in schema, f"{name} has no example"


def _contents(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for described in (operation.get("requestBody", {}), *operation["responses"].values()):
        yield from described.get("content", {}).values()


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_body_has_a_schema_and_an_example_of_it(name: str) -> None:
    for content in _contents(OPERATIONS[name]):
        examples = [each["value"] for each in content.get("examples", {}).values()]
        if "example" in content:
            examples.append(content["example"])
        plain = content["schema"] == {"type": "string"}
        assert examples or plain
        for example in examples:
            valid(content["schema"], example)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_route_says_what_it_needs_and_how_it_refuses(name: str) -> None:
    operation = OPERATIONS[name]
    public = operation.get("security") == []

    assert public or operation["x-permission"]
    assert {"400", "403"} <= operation["responses"].keys()
    assert public or {"401", "503"} <= operation["responses"].keys()
    for status, answer in operation["responses"].items():
        if int(status) >= 400 and status != "503":
            assert "application/problem+json" in answer["content"], (name, status)


@pytest.mark.parametrize("schema", READERS)
def test_the_example_of_a_body_is_read_by_its_codec(schema: str) -> None:
    bodies = [
        content["example"]
        for operation in OPERATIONS.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
        if content["schema"]["$ref"].endswith(f"/{schema}")
    ]

    assert bodies
    for body in bodies:
        READERS[schema](body)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_part_of_the_path_is_a_parameter(name: str) -> None:
    parameters = [each["name"] for each in OPERATIONS[name]["parameters"] if each["in"] == "path"]

    assert sorted(parameters) == sorted(re.findall(r"\{(\w+)\}", name))

"""`POST /v1/events`: every dialect, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import httpx
import orjson
import pytest

from streamsched.access.emit_spans import EmitSpans
from streamsched.api.app import make_api
from streamsched.codec import event as event_codec
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.jobs.spans import TraceSpan
from streamsched.domain.signals.home import home
from streamsched.log.drivers import open_broker
from streamsched.log.records import records
from streamsched.log.topics import PUBLIC, topic_specs
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.roles.api import api_services
from streamsched.roles.services import Services

pytestmark = pytest.mark.postgres

NATIVE = {
    "id": "n1",
    "source": "test",
    "type": "partitions.added",
    "data": {"dataset": "flights", "partitions": ["day=1"]},
}
CLOUD = {**NATIVE, "id": "c1", "specversion": "1.0", "type": "streamsched.partitions.added"}
CDAP = {
    "notificationType": "PARTITION",
    "properties": {"datasetId": '{"namespace":"default","dataset":"flights","entity":"DATASET"}', "numPartitions": "2"},
}


async def logged(services: Services) -> list[Event]:
    """What is on the public topics, each checked to be at the home of its key."""
    found: list[Event] = []
    for topic in PUBLIC:
        for partition in range(services.settings.shards):
            async for record in records(services.broker, TopicPartition(topic, partition)):
                assert record.value is not None
                event = event_codec.decode(record.value, fallback_id="-", fallback_time=services.clock.now())
                assert record.key == event.key.encode()
                assert home(event.key, services.settings.shards) == partition
                found.append(event)
    return found


async def post(client: httpx.AsyncClient, body: Any, content_type: str, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return await client.post("/v1/events", content=content, headers={"Content-Type": content_type, **headers})


@pytest.mark.parametrize(
    ("body", "content_type", "ids"),
    [
        (NATIVE, "application/json", ["n1"]),
        ([NATIVE, CLOUD], "application/json; charset=utf-8", ["n1", "c1"]),
        (CLOUD, "application/cloudevents+json", ["c1"]),
        ([CLOUD, {**CLOUD, "id": "c2"}], "application/cloudevents-batch+json", ["c1", "c2"]),
    ],
)
async def test_every_dialect_is_acknowledged_when_the_log_has_it(
    client: httpx.AsyncClient, services: Services, body: Any, content_type: str, ids: list[str]
) -> None:
    answer = await post(client, body, content_type)
    assert answer.status_code == 202, answer.text
    unheard = ["partition:default.flights"]
    assert answer.json() == {"accepted": len(ids), "ids": ids, "errors": [], "unheard": unheard}
    assert [event.id for event in await logged(services)] == ids


async def test_a_cloudevent_may_have_its_attributes_in_headers(client: httpx.AsyncClient, services: Services) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "b1",
        "ce-source": "/a%20b",
        "ce-type": "streamsched.partitions.added",
    }
    answer = await post(client, NATIVE["data"], "application/json", **headers)
    assert answer.status_code == 202, answer.text
    (event,) = await logged(services)
    assert (event.id, event.source) == ("b1", "/a b")


async def test_a_cdap_notification_is_an_event_with_an_id_of_our_making(
    client: httpx.AsyncClient, services: Services
) -> None:
    answer = await post(client, CDAP, "application/json")
    assert answer.status_code == 202, answer.text
    (event,) = await logged(services)
    assert [event.id] == answer.json()["ids"]
    assert isinstance(event.fact, PartitionsAdded)
    assert event.fact.count == 2


async def test_a_program_status_of_cdap_has_the_same_id_each_time(client: httpx.AsyncClient) -> None:
    run = {"application": "up", "type": "Workflow", "program": "wf", "run": "r1"}
    status = {
        "notificationType": "PROGRAM_STATUS",
        "properties": {"programRunId": orjson.dumps(run).decode(), "programStatus": "COMPLETED"},
    }
    answer = await post(client, [status, status], "application/json")
    assert answer.json()["ids"] == ["r1.completed"] * 2, answer.text


async def test_the_valid_events_of_a_batch_are_taken_and_each_bad_one_is_named(
    client: httpx.AsyncClient, services: Services
) -> None:
    none = {**NATIVE, "id": "zero", "data": {"dataset": "flights", "count": 0}}
    unknown = {**NATIVE, "id": "odd", "type": "nonsense"}
    unkeepable = {"type": "custom", "data": {"name": "a", "attributes": {"b": "\0"}}}
    batch = [NATIVE, none, {**NATIVE, "id": "n2"}, unknown, unkeepable]
    answer = await post(client, batch, "application/json")
    assert answer.status_code == 202
    body = answer.json()
    assert (body["accepted"], body["ids"]) == (2, ["n1", "n2"])
    assert [(each["index"], each["path"]) for each in body["errors"]] == [
        (1, "$[1].data.count"),
        (3, "$[3].type"),
        (4, "$[4].data.attributes.b"),
    ]
    assert [event.id for event in await logged(services)] == ["n1", "n2"]


_BAD_REQUESTS: Final[list[tuple[Any, str, str]]] = [
    (b"{nonsense", "application/json", "$"),
    (b"", "application/json", "$"),
    (b"[]", "application/json", "$"),
    (b'{"a":1}', "application/cloudevents-batch+json", "$"),
    ({**NATIVE, "data": {"dataset": "flights", "count": -1}}, "application/json", "$.data.count"),
    ({**NATIVE, "data": {"dataset": "a/b"}}, "application/json", "$.data"),
    ({**NATIVE, "data": {"dataset": "a", "partitions": ["p\0"]}}, "application/json", "$.data.partitions[0]"),
    ({**CLOUD, "type": "streamsched.misspelt"}, "application/cloudevents+json", "$.type"),
]


async def test_a_request_without_a_single_good_event_is_refused_with_the_path(
    client: httpx.AsyncClient, services: Services
) -> None:
    for body, content_type, path in _BAD_REQUESTS:
        answer = await post(client, body, content_type)
        assert answer.status_code == 400, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["path"].startswith(path)
        assert answer.json()["reason"]
        assert await logged(services) == []


async def test_no_client_fires_a_tick_from_outside(client: httpx.AsyncClient) -> None:
    tick = {**NATIVE, "type": "tick", "data": {}}
    assert (await post(client, tick, "application/json")).status_code == 400


async def test_a_body_over_the_limit_is_413_announced_or_not(client: httpx.AsyncClient) -> None:
    async def pieces():
        for _ in range(100):
            yield b"[" * 1024

    assert (await post(client, b" " * 70_000, "application/json")).status_code == 413
    answer = await client.post("/v1/events", content=pieces(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert "65536" in answer.json()["detail"]


async def test_another_content_type_is_415_and_says_which_are_known(client: httpx.AsyncClient) -> None:
    answer = await post(client, b"<xml/>", "application/xml")
    assert answer.status_code == 415
    assert "application/cloudevents+json" in answer.json()["detail"]


async def test_an_emitter_is_warned_about_missing_listeners_unless_it_does_not_care(
    deployed: httpx.AsyncClient,
) -> None:
    elsewhere = {**NATIVE, "id": "e", "data": {"dataset": "nowhere", "count": 1}}
    answer = await deployed.post("/v1/events", json=[NATIVE, elsewhere])
    assert answer.json()["accepted"] == 2
    assert answer.json()["unheard"] == ["partition:default.nowhere"]
    assert "unheard" not in (await deployed.post("/v1/events?check=none", json=elsewhere)).json()


async def test_no_warning_is_given_about_a_schedule_that_was_made_just_now(deployed: httpx.AsyncClient) -> None:
    elsewhere = {**NATIVE, "id": "e", "data": {"dataset": "nowhere", "count": 1}}
    assert (await deployed.post("/v1/events", json=elsewhere)).json()["unheard"] == ["partition:default.nowhere"]
    trigger = {"type": "PARTITION", "dataset": "nowhere", "numPartitions": 7}
    made = {"namespace": "default", "application": "flights", "name": "n", "program": "join", "trigger": trigger}
    assert (await deployed.post("/v1/schedules", json=made)).status_code == 201

    assert (await deployed.post("/v1/events", json={**elsewhere, "id": "e2"})).json()["unheard"] == []


async def test_an_event_without_a_key_for_the_schedules_that_listen_is_named(deployed: httpx.AsyncClient) -> None:
    partition = {"type": "PARTITION", "dataset": "clicks", "numPartitions": 1}
    trigger = {"type": "PER", "trigger": partition, "by": ["day", "hour"], "grain": "hour", "zone": "Europe/Berlin"}
    made = {"namespace": "default", "application": "flights", "name": "n", "program": "join", "trigger": trigger}
    assert (await deployed.post("/v1/schedules", json=made)).status_code == 201
    keys = "day=2026-03-29/hour=1", "day=2026-03-29/hour=2", "hour=2026-03-29T01"
    events = [{**NATIVE, "id": key, "data": {"dataset": "clicks", "partitions": [key]}} for key in keys]

    answer = (await deployed.post("/v1/events", json=events)).json()

    skipped = "day='2026-03-29', hour='2' name no hour: clocks of Europe/Berlin skip it"
    assert (answer["accepted"], answer["unheard"]) == (3, [])
    assert answer["keyless"] == [
        {"id": keys[1], "key": "partition:default.clicks", "why": f"it has no key: {skipped}"},
        {"id": keys[2], "key": "partition:default.clicks", "why": "it has no key: day is missing"},
    ]
    shown = (await deployed.get("/v1/schedules/default.flights.n")).json()["trigger"]
    assert (shown["grain"], shown["zone"]) == ("hour", "Europe/Berlin")


async def test_an_accepted_event_is_accepted_though_its_listeners_are_unknown(
    deployed: httpx.AsyncClient, services: Services
) -> None:
    await services.pool.execute("ALTER TABLE schedules RENAME TO gone")

    answer = await deployed.post("/v1/events", json=NATIVE)

    assert answer.status_code == 202
    assert answer.json()["unheard"] is None


async def test_when_the_log_is_away_nothing_is_acknowledged(client: httpx.AsyncClient, services: Services) -> None:
    await services.broker.close()
    answer = await post(client, NATIVE, "application/json")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert answer.json()["retriable"] is True


@pytest.mark.kafka
async def test_an_event_larger_than_the_log_takes_is_413_so_that_emitters_send_its_neighbours(
    services: Services, kafka_log: str
) -> None:
    log = await open_broker(f"{kafka_log}&max_record_bytes={1 << 20}")
    await log.create_topics(topic_specs(services.settings.shards, timedelta(days=1)))
    settings = services.settings.replace(body_limit=16 << 20)
    api = make_api(api_services(replace(services, broker=log, settings=settings)))
    big = {**NATIVE, "id": "n2", "type": "custom", "data": {"name": "big", "attributes": {"x": "x" * (2 << 20)}}}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://localhost") as client:
        answer = await post(client, [NATIVE, big], "application/json")
        assert (answer.status_code, answer.json()["retriable"]) == (413, False)
        assert "2097" in answer.json()["detail"]
        assert (await post(client, NATIVE, "application/json")).status_code == 202
    await log.close()


CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.mark.parametrize("body", [NATIVE, CLOUD, CDAP], ids=["native", "cloudevents", "cdap"])
async def test_the_context_of_a_request_is_that_of_its_events_without_one(
    client: httpx.AsyncClient, services: Services, body: dict[str, Any]
) -> None:
    both = [{**body, "id": "x1", "source": "s"}, {**body, "id": "x2", "source": "s", "traceparent": OWN}]
    kind = "application/cloudevents-batch+json" if body is CLOUD else "application/json"

    answered = await client.post(
        "/v1/events", content=orjson.dumps(both), headers={"traceparent": CONTEXT, "content-type": kind}
    )

    assert answered.status_code == 202
    assert {event.id: event.traceparent for event in await logged(services)} == {"x1": CONTEXT, "x2": OWN}


async def test_a_malformed_context_is_ignored(client: httpx.AsyncClient, services: Services) -> None:
    answered = await client.post("/v1/events", json={**NATIVE, "traceparent": "x" * 9}, headers={"traceparent": "no"})
    assert answered.status_code == 202
    assert [event.traceparent for event in await logged(services)] == [None]


async def test_spans_are_made_of_accepted_events_with_a_context_only(services: Services) -> None:
    put: list[TraceSpan] = []
    made = api_services(services)
    made = replace(made, events=replace(made.events, emit_spans=EmitSpans(Sampler(), put.extend)))
    transport = httpx.ASGITransport(app=make_api(made))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        both = [{**NATIVE, "id": "x1"}, {**NATIVE, "id": "x2", "traceparent": CONTEXT}, {**NATIVE, "type": "what"}]
        assert (await client.post("/v1/events", json=both)).json()["accepted"] == 2

    (span,) = put
    assert (span.name, str(span.parent)) == ("emit", CONTEXT)
    assert span.attributes["streamsched.event.id"] == "x2"
    assert [event.traceparent for event in await logged(services)] == [None, str(span.context)]


async def test_the_newest_events_are_listed(client: httpx.AsyncClient, services: Services) -> None:
    many = {**NATIVE, "id": "n2", "data": {"dataset": "flights", "partitions": [f"day={day}" for day in range(9)]}}
    custom = {"id": "c1", "source": "test", "type": "custom", "data": {"name": "done", "attributes": {"by": "ana"}}}
    size = {"id": "s1", "source": "test", "type": "stream.size", "data": {"stream": "clicks", "bytes": 7}}
    await post(client, [many, custom, size], "application/json")
    await services.broker.append([Outgoing(PUBLIC[0], 0, b"k", b"nonsense")])

    found = (await client.get("/v1/events")).json()

    assert found["searchedAll"] is True
    known = {each["id"]: each for each in found["events"]}
    assert known["n2"]["what"] == "9 partitions: day=0, day=1, day=2, day=3, day=4"
    assert (known["c1"]["key"], known["c1"]["what"]) == ("event:default.done", "by=ana")
    assert known["s1"]["what"] == "7 bytes"
    [unread] = [each for each in found["events"] if each["problem"]]
    assert (unread["position"], unread["key"]) == (f"{PUBLIC[0]}/0/0", None) or unread["position"].startswith(PUBLIC[0])
    assert [each["id"] for each in (await client.get("/v1/events?text=ANA")).json()["events"]] == ["c1"]
    assert len((await client.get("/v1/events?limit=2")).json()["events"]) == 2
    assert (await client.get("/v1/events?limit=0")).status_code == 400


async def test_datasets_are_listed_by_who_waits_for_them(deployed: httpx.AsyncClient) -> None:
    def schedule(name: str, dataset: str) -> dict[str, Any]:
        trigger = {"type": "PARTITION", "dataset": dataset, "numPartitions": 1}
        return {"name": name, "program": "p", "trigger": trigger}

    programs = [{"name": "p", "type": "bash", "command": "true"}]
    body = {"programs": programs, "schedules": [schedule("a", "flights"), schedule("b", "weather")]}
    assert (await deployed.put("/v1/apps/default/other", json=body)).status_code == 200
    body = {"programs": programs, "schedules": [schedule("a", "default.flights")]}
    assert (await deployed.put("/v1/apps/sales/more", json=body)).status_code == 200

    found = (await deployed.get("/v1/datasets")).json()["datasets"]
    assert [(each["id"], each["schedules"]) for each in found] == [("default.flights", 3), ("default.weather", 1)]
    page = (await deployed.get("/v1/datasets?limit=1")).json()
    assert ([each["id"] for each in page["datasets"]], page["next"]) == (["default.flights"], "default.flights")
    rest = (await deployed.get("/v1/datasets", params={"after": page["next"]})).json()
    assert ([each["id"] for each in rest["datasets"]], "next" in rest) == (["default.weather"], False)
    assert (await deployed.get("/v1/datasets?namespace=none")).json() == {"datasets": []}
    assert (await deployed.get("/v1/datasets?namespace=a.b")).status_code == 400

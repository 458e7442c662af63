"""Events in three dialects: what each says, and how each refusal names the field."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from streamsched.codec import event
from streamsched.codec.events import cloudevents
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
)
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef

NOW = datetime(2013, 1, 7, 12, tzinfo=UTC)
FLIGHTS = DatasetRef("default", "flights")


def decode(said: Any) -> Event:
    return event.decode(orjson.dumps(said), fallback_id="log:partitions/0/17", fallback_time=NOW)


def native(kind: str, data: Any, **envelope: Any) -> dict[str, Any]:
    return {"id": "1", "source": "s", "time": "2013-01-07T00:00:00Z", "type": kind, "data": data, **envelope}


def added(**data: Any) -> dict[str, Any]:
    return native("partitions.added", {"dataset": "default.flights", "partitions": [], "count": 1, **data})


def structured(kind: str, data: Any = None, **attributes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "s", "type": kind, "data": data, **attributes}


def notification(kind: str, **properties: Any) -> dict[str, Any]:
    return {"notificationType": kind, "properties": properties}


def run_id(**fields: Any) -> str:
    known = {"namespace": "default", "application": "up", "type": "Workflow", "program": "UpWF", "run": "r1"}
    return orjson.dumps({k: v for k, v in {**known, **fields}.items() if v is not None}).decode()


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        pytest.param(
            native("partitions.added", {"dataset": "flights", "partitions": ["year=2013/month=1"]}),
            PartitionsAdded(FLIGHTS, (Partition("year=2013/month=1", {"year": "2013", "month": "1"}),), 1),
            id="a partition by its key alone",
        ),
        pytest.param(
            added(partitions=[{"values": {"year": 2013, "last": True, "x": 1.5}, "bytes": 7}], count=None),
            PartitionsAdded(
                FLIGHTS, (Partition("year=2013/last=true/x=1.5", {"year": "2013", "last": "true", "x": "1.5"}, 7),), 1
            ),
            id="a partition by its values alone, which become text",
        ),
        pytest.param(
            added(partitions=["a=1"], statistics_follow=True),
            PartitionsAdded(FLIGHTS, (Partition("a=1", {"a": "1"}),), 1, statistics_follow=True),
            id="statistics that follow",
        ),
        pytest.param(added(statistics_follow=None), PartitionsAdded(FLIGHTS, (), 1), id="statistics that do not"),
        pytest.param(added(count=9), PartitionsAdded(FLIGHTS, (), 9), id="partitions that are not named"),
        pytest.param(
            native("stream.size", {"stream": "clicks", "bytes": 5}),
            StreamSize(StreamRef("default", "clicks"), 5, absolute=True),
            id="a stream's whole size",
        ),
        pytest.param(
            native("program.status", {"program": "default.up.UpWF", "run": "r1", "outcome": "killed"}),
            ProgramReached(ProgramRef("default", "up", "UpWF"), "r1", Outcome.KILLED),
            id="a program status",
        ),
        pytest.param(
            native("custom", {"name": "other.go", "attributes": {"n": 1}, "later": "field"}),
            CustomHappened(EventName("other", "go"), {"n": "1"}),
            id="a custom event; an unknown field is skipped",
        ),
        pytest.param(
            structured("streamsched.partitions.added", {"dataset": "flights", "count": 2}),
            PartitionsAdded(FLIGHTS, (), 2),
            id="partitions in a cloudevent",
        ),
        pytest.param(
            structured("streamsched.custom", data_base64=base64.b64encode(b'{"name":"go"}').decode()),
            CustomHappened(EventName("default", "go")),
            id="a cloudevent with its data in base64",
        ),
        pytest.param(
            structured("com.example.push", {"ref": "main", "n": 3, "who": {"id": 1}, "none": None}),
            CustomHappened(
                EventName("default", "com.example.push"), {"ref": "main", "n": "3", "who": '{"id":1}', "none": "null"}
            ),
            id="a stranger's cloudevent is a custom event",
        ),
        pytest.param(
            structured("com.example.push"),
            CustomHappened(EventName("default", "com.example.push")),
            id="a stranger's cloudevent without data",
        ),
        pytest.param(
            notification(
                "PARTITION",
                datasetId="dataset:default.flights",
                numPartitions="2",
                partitionKeys='[{"time":["java.lang.Long",1494368640000],"c":["java.lang.String","x"]}]',
            ),
            PartitionsAdded(FLIGHTS, (Partition("time=1494368640000/c=x", {"time": "1494368640000", "c": "x"}),), 2),
            id="CDAP's partitions",
        ),
        pytest.param(
            notification("PARTITION", datasetId='{"dataset":"flights","namespace":"default"}', numPartitions=3),
            PartitionsAdded(FLIGHTS, (), 3),
            id="CDAP's dataset as an object",
        ),
        pytest.param(
            notification(
                "PROGRAM_STATUS",
                programRunId=run_id(),
                programStatus="COMPLETED",
                endTime="1494368640000",
                userOverrides='{"a":"b"}',
                systemOverrides="{not read",
            ),
            ProgramReached(
                ProgramRef("default", "up", "UpWF"),
                "r1",
                Outcome.SUCCEEDED,
                {"a": "b"},
                datetime(2017, 5, 9, 22, 24, tzinfo=UTC),
            ),
            id="CDAP's program status",
        ),
        pytest.param(
            notification("STREAM_SIZE", streamId="stream:default.clicks", streamSize="12"),
            StreamSize(StreamRef("default", "clicks"), 12, absolute=True),
            id="CDAP's stream size",
        ),
    ],
)
def test_a_dialect_says_a_fact(said: dict[str, Any], fact: Fact) -> None:
    assert decode(said).fact == fact


@pytest.mark.parametrize(
    ("said", "path", "reason"),
    [
        pytest.param([], "$", "must be an object", id="a list where one event is wanted"),
        pytest.param({}, "$.type", "is missing", id="nothing"),
        pytest.param(native("partition.added", {}), "$.type", "must be one of partitions.added, ", id="unknown type"),
        pytest.param(added(count=0), "$.data.count", "must be at least 1 but is 0", id="zero partitions"),
        pytest.param(added(count=-3), "$.data.count", "must be at least 1 but is -3", id="a negative count"),
        pytest.param(added(count=None), "$.data.count", "names no partition", id="no partitions and no count"),
        pytest.param(added(count=True), "$.data.count", "must be a whole number but is True", id="a boolean as count"),
        pytest.param(added(count="3"), "$.data.count", "must be a whole number but is '3'", id="text as count"),
        pytest.param(added(count=2**63), "$.data.count", "must be less than 2**63", id="a huge count"),
        pytest.param(added(count=1e30), "$.data.count", "must be a whole number but is 1e+30", id="a float count"),
        pytest.param(
            added(partitions=["a=1", "a=2"], count=1), "$.data.count", "is 1, but 2 partitions", id="too small a count"
        ),
        pytest.param(added(dataset=None), "$.data.dataset", "must be text", id="no dataset"),
        pytest.param(
            added(dataset="a/b.c"), "$.data.dataset", "must be one or more of", id="a dataset of other characters"
        ),
        pytest.param(added(partitions={}), "$.data.partitions", "must be a list", id="partitions as an object"),
        pytest.param(
            added(partitions=["a=1", {"key": "a=2"}, {"key": "a=3", "bytes": -1}], count=3),
            "$.data.partitions[2].bytes",
            "must be at least 0 but is -1",
            id="negative bytes of the third partition",
        ),
        pytest.param(
            added(partitions=[{"values": {"a": []}}]),
            "$.data.partitions[0].values.a",
            "must be text, a number or a boolean but is []",
            id="a list as a value",
        ),
        pytest.param(
            added(partitions=[{"values": {"a": 1e25}}]),
            "$.data.partitions[0].values.a",
            "is too large a number",
            id="a number that would be rounded",
        ),
        pytest.param(
            added(partitions=["a=1", {"key": "a=2", "rows": 0}], count=2, statistics_follow=True),
            "$.data.statistics_follow",
            "is true, but the event states bytes or rows already",
            id="statistics that follow and are there",
        ),
        pytest.param(
            added(statistics_follow="yes"), "$.data.statistics_follow", "must be true or false", id="a text as boolean"
        ),
        pytest.param(added(partitions=[{}]), "$.data.partitions[0].key", "is missing", id="a partition without key"),
        pytest.param(added(partitions=[""]), "$.data.partitions[0]", "must not be empty", id="an empty partition key"),
        pytest.param(native("stream.size", {"stream": "a"}), "$.data.bytes", "is missing", id="no size"),
        pytest.param(
            native("stream.size", {"stream": "a", "bytes": 1, "absolute": 1}),
            "$.data.absolute",
            "must be true or false but is 1",
            id="a number as a boolean",
        ),
        pytest.param(
            native("program.status", {"program": "a.b", "run": "r", "outcome": "failed"}),
            "$.data.program",
            "is not of the form namespace.app.name",
            id="half a program",
        ),
        pytest.param(
            native("program.status", {"program": "a.b.c", "run": "r", "outcome": "done"}),
            "$.data.outcome",
            "must be one of started, succeeded, failed, killed",
            id="an unknown outcome",
        ),
        pytest.param(
            native("tick", {"schedule": "a.b.c", "generation": 1, "leaf": "x", "due_at": "2013-01-01T00:00:00Z"}),
            "$.type",
            "ticks come from the timers",
            id="a tick from outside",
        ),
        pytest.param(added() | {"time": "2013-01-07T00:00:00"}, "$.time", "must name its offset", id="a naive time"),
        pytest.param(added() | {"time": "yesterday"}, "$.time", "must be an ISO 8601", id="no time at all"),
        pytest.param(added() | {"time": 7}, "$.time", "must be an ISO 8601", id="a number as a time"),
        pytest.param(
            added() | {"time": "0001-01-01T00:00:00+05:00"}, "$.time", "must be an ISO 8601", id="before time began"
        ),
        pytest.param(added() | {"id": ""}, "$.id", "must not be empty", id="an empty id"),
        pytest.param(added() | {"id": "a\x1fb"}, "$.id", "control characters", id="a control character in an id"),
        pytest.param(added() | {"id": "log:x"}, "$.id", "must not begin with 'log:'", id="an id as ingest makes them"),
        pytest.param(added() | {"source": None}, "$.source", "is missing", id="an id without a source"),
        pytest.param(structured("a") | {"specversion": "0.3"}, "$.specversion", "must be 1.0", id="an old cloudevent"),
        pytest.param(structured("a") | {"id": None}, "$.id", "is missing", id="a cloudevent without id"),
        pytest.param(structured("a b"), "$.type", "must be one or more of", id="a stranger's type that is no name"),
        pytest.param(structured("a", [1]), "$.data", "must be an object", id="a stranger's list"),
        pytest.param(structured("streamsched.partition.added", {}), "$.type", "must be one of", id="a misspelt type"),
        pytest.param(structured("streamsched.tick", {}), "$.type", "ticks come from", id="a tick in a cloudevent"),
        pytest.param(structured("a") | {"data_base64": "*"}, "$.data_base64", "is not base64", id="no base64"),
        pytest.param(structured("a") | {"data_base64": "Kg=="}, "$.data_base64", "is not JSON", id="base64 of no JSON"),
        pytest.param(notification("TIME"), "$.notificationType", "must be one of PARTITION", id="CDAP's ticks"),
        pytest.param(notification("PARTITION"), "$.properties.datasetId", "is missing", id="CDAP's missing dataset"),
        pytest.param(
            notification("PARTITION", datasetId="dataset:default.a"),
            "$.properties.numPartitions",
            "names no partition and states no count",
            id="CDAP's missing count",
        ),
        pytest.param(
            notification("PARTITION", datasetId="dataset:default.a", numPartitions="many"),
            "$.properties.numPartitions",
            "must be a whole number but is 'many'",
            id="the count that blocked CDAP's topic",
        ),
        pytest.param(
            notification("PARTITION", datasetId="dataset:default.a", partitionKeys='[{"t":[1]}]'),
            "$.properties.partitionKeys[0].t",
            "must be a Java type and a value",
            id="CDAP's key without a value",
        ),
        pytest.param(
            notification("PROGRAM_STATUS", programRunId=run_id()),
            "$.properties.programStatus",
            "is missing",
            id="the status that blocked CDAP's topic",
        ),
        pytest.param(
            notification("PROGRAM_STATUS", programRunId=run_id(), programStatus="SUSPENDED"),
            "$.properties.programStatus",
            "is none a trigger can ask for",
            id="CDAP's status that cannot be requested",
        ),
        pytest.param(
            notification("PROGRAM_STATUS", programRunId=run_id(run=None), programStatus="FAILED"),
            "$.properties.programRunId.run",
            "is missing",
            id="CDAP's run without an id",
        ),
        pytest.param(
            notification("STREAM_SIZE", scheduleId="x"), "$.properties.streamId", "is missing", id="CDAP's own size"
        ),
    ],
)
def test_a_refusal_names_the_field_and_the_reason(said: Any, path: str, reason: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(said)

    assert refused.value.path == path
    assert reason in refused.value.reason


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":NaN}', b"\xff\xfe", b'{"id":1e999}'])
def test_what_is_no_json_is_refused_at_the_root(raw: bytes) -> None:
    with pytest.raises(DecodeError) as refused:
        event.decode(raw, fallback_id="log:1", fallback_time=NOW)

    assert refused.value.path == "$"
    assert "is not JSON" in refused.value.reason


def test_what_an_event_does_not_say_comes_from_its_place_in_the_log() -> None:
    data = {"dataset": "flights", "count": 1}

    unnamed = decode({"type": "partitions.added", "data": data})
    notified = decode(notification("PARTITION", datasetId="default.flights", numPartitions="1"))
    stamped = decode(native("partitions.added", data, time="2013-01-07T05:30:00.25+05:30"))

    assert (unnamed.id, unnamed.source, unnamed.time) == ("log:partitions/0/17", "unknown", NOW)
    assert (notified.id, notified.source, notified.time) == ("log:partitions/0/17", "cdap", NOW)
    assert stamped.time == datetime(2013, 1, 7, 0, 0, 0, 250_000, tzinfo=UTC)
    assert stamped.time.tzinfo is UTC


def test_each_element_of_a_batch_stands_for_itself() -> None:
    raw = orjson.dumps(
        [
            structured("streamsched.partitions.added", {"dataset": "flights", "count": 1}),
            added(partitions=[{"key": "a", "rows": 1.5}]),
            notification("PARTITION", datasetId="default.flights", numPartitions="1"),
            7,
        ]
    )

    first, second, third, fourth = event.decode_batch(raw, fallback_id="request", fallback_time=NOW)

    assert isinstance(first, Event)
    assert isinstance(second, DecodeError)
    assert second.path == "$[1].data.partitions[0].rows"
    assert isinstance(third, Event)
    assert third.id == "request:2"
    assert isinstance(fourth, DecodeError)
    assert fourth.path == "$[3]"


def test_a_batch_that_is_no_list_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"^\$: must be a list"):
        event.decode_batch(b"{}", fallback_id="request", fallback_time=NOW)


def test_a_binary_cloudevent_has_its_attributes_in_headers() -> None:
    headers = {
        "Content-Type": "application/json",
        "ce-specversion": "1.0",
        "Ce-Id": "1%20%C3%A9",
        "CE-SOURCE": "s",
        "ce_type": "streamsched.partitions.added",
    }

    seen = cloudevents.decode_binary(headers, b'{"dataset":"flights","count":2}', fallback_time=NOW)

    assert seen == Event("1 é", "s", NOW, PartitionsAdded(FLIGHTS, (), 2))
    with pytest.raises(DecodeError, match=r"^\$\.data: is not JSON"):
        cloudevents.decode_binary(headers, b"{", fallback_time=NOW)
    with pytest.raises(DecodeError, match=r"^\$\.data: is missing"):
        cloudevents.decode_binary(headers, b"", fallback_time=NOW)
    with pytest.raises(DecodeError, match=r"^\$\.specversion: is missing"):
        cloudevents.decode_binary({}, b"", fallback_time=NOW)


def test_a_bare_key_is_read_without_hives_escapes() -> None:
    """As emitters and commands give it, which send the values beside the key."""
    data = {"dataset": "flights", "partitions": ["region=a%2Fb/name=%C3%A9", "day=1%", {"key": "region=a%2Fb"}]}
    raw = orjson.dumps({"id": "e", "source": "s", "type": "partitions.added", "data": data})

    fact = event.decode(raw, fallback_id="f", fallback_time=NOW).fact

    assert isinstance(fact, PartitionsAdded)
    assert [(each.key, dict(each.values)) for each in fact.partitions] == [
        ("region=a%2Fb/name=%C3%A9", {"region": "a/b", "name": "é"}),
        ("day=1%", {"day": "1%"}),
        ("region=a%2Fb", {"region": "a/b"}),
    ]

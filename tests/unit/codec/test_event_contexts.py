"""Where the trace context of an event is read from, in every dialect; a malformed one refuses no event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from streamsched.codec import event as event_codec
from streamsched.codec.events import cloudevents
from streamsched.domain.events.event import Event

NOW = datetime(2013, 1, 7, tzinfo=UTC)
CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DATA = {"dataset": "flights", "partitions": ["day=1"]}
NATIVE = {"id": "n1", "source": "test", "type": "partitions.added", "data": DATA}
CLOUD = {**NATIVE, "specversion": "1.0", "type": "streamsched.partitions.added"}
CDAP = {
    "id": "n1",
    "source": "cdap",
    "notificationType": "PARTITION",
    "properties": {"datasetId": "dataset:default.flights", "numPartitions": "1"},
}


def decoded(body: dict[str, Any]) -> Event:
    return event_codec.decode(orjson.dumps(body), fallback_id="x", fallback_time=NOW)


@pytest.mark.parametrize("body", [NATIVE, CLOUD, CDAP])
@pytest.mark.parametrize(
    ("given", "read"),
    [(CONTEXT, CONTEXT), (CONTEXT.upper(), None), ("no context", None), (7, None), ({"a": []}, None), (None, None)],
)
def test_a_field_of_the_event(body: dict[str, Any], given: object, read: str | None) -> None:
    event = decoded({**body, "traceparent": given})

    assert event.traceparent == read
    assert event_codec.decode(event_codec.encode(event), fallback_id="x", fallback_time=NOW) == event
    assert decoded(cloudevents.to_json(event) | {"time": "2013-01-07T00:00:00Z"}).traceparent == read


def test_a_header_of_a_binary_cloudevent() -> None:
    headers = {f"ce-{name}": str(value) for name, value in CLOUD.items() if name != "data"}
    event = cloudevents.decode_binary({**headers, "ce-traceparent": CONTEXT}, orjson.dumps(DATA), fallback_time=NOW)
    assert event.traceparent == CONTEXT

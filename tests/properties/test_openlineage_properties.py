"""Any bytes and any JSON give a run event or a `DecodeError`; what it becomes can be encoded and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.codec import event as event_codec
from streamsched.dialects.openlineage.codec.facts import facts
from streamsched.dialects.openlineage.codec.run_event import RunEventType, decode
from streamsched.domain.errors import DecodeError

SPARK = Path(__file__).parents[1] / "golden" / "openlineage" / "spark-1.53.0.jsonl"
RECORDED = [json.loads(line) for line in SPARK.read_bytes().splitlines()]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
NAME = st.fixed_dictionaries({"namespace": st.text(min_size=1, max_size=30), "name": st.text(min_size=1, max_size=300)})
COUNT = st.none() | st.integers(0, 2**63 - 1)
OUTPUT = st.builds(
    lambda name, rows, size: {**name, "outputFacets": {"outputStatistics": {"rowCount": rows, "size": size}}},
    *(NAME, COUNT, COUNT),
)
RUN_EVENT = st.fixed_dictionaries(
    {
        "eventType": st.sampled_from([str(each) for each in RunEventType]),
        "eventTime": st.datetimes(timezones=st.timezones()).map(lambda at: at.isoformat()),
        "run": st.fixed_dictionaries({"runId": st.uuids().map(str)}),
        "job": NAME,
        "outputs": st.lists(OUTPUT, max_size=4),
    }
)


def check(raw: bytes) -> None:
    try:
        run = decode(raw)
    except DecodeError as exc:
        run, path = None, exc.path
    else:
        path = "$"
    assert path.startswith("$")
    if run is None:
        return
    found = facts(run, namespace="default", known={})
    events = [each.event for each in found.datasets] + ([found.program] if found.program else [])
    assert len({event.id for event in events}) == len(events)
    for event in events:
        raw = event_codec.encode(event)
        assert event_codec.decode(raw, fallback_id="-", fallback_time=run.at) == event


@given(st.binary(max_size=200))
@example(b"[]")
@example(b'{"run": {}}')
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@given(RUN_EVENT)
def test_any_run_event(event: dict[str, Any]) -> None:
    check(json.dumps(event).encode())


@given(st.sampled_from(RECORDED), st.data())
def test_a_recorded_event_with_one_value_replaced(event: dict[str, Any], data: st.DataObject) -> None:
    changed = json.loads(json.dumps(event))
    at: Any = changed
    while True:
        key = data.draw(st.sampled_from(sorted(at)) if isinstance(at, dict) else st.integers(0, len(at) - 1))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            at[key] = data.draw(JSON)
            break
        at = at[key]
    check(json.dumps(changed).encode())

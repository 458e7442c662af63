"""What was encoded decodes to an equal value, and any bytes at all give a value or a `DecodeError`."""

from __future__ import annotations

import string
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.codec import event as event_codec
from streamsched.codec.events import cloudevents, native
from streamsched.codec.records import launch, state
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.views import trigger_context as facts
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.signals.signal import Put, Signal
from streamsched.domain.triggers.trigger import Partitions, leaf_id, leaves
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import strategies as drawn

NOW = datetime(2013, 1, 7, tzinfo=UTC)
USUAL = examples(120)


def decode_event(raw: bytes) -> Event:
    return event_codec.decode(raw, fallback_id="log:test/0/1", fallback_time=NOW)


def decode_signal(raw: bytes) -> Signal:
    return signal_codec.decode(b"partition:default.flights", raw)


def decode_batch(raw: bytes) -> object:
    return event_codec.decode_batch(raw, fallback_id="log:test/0/1", fallback_time=NOW)


def decode_body(raw: bytes) -> Event:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "CE-Type": "streamsched.partitions.added"}
    return cloudevents.decode_binary(headers, raw, fallback_time=NOW)


DECODERS: list[Callable[[bytes], object]] = [
    decode_event,
    decode_signal,
    decode_batch,
    decode_body,
    launch.decode,
    state.decode,
]

NOTIFICATION = {
    "notificationType": "PARTITION",
    "properties": {
        "datasetId": "dataset:default.lines",
        "numPartitions": "2",
        "partitionKeys": '[{"time":["java.lang.Long",1494368640000]}]',
    },
}
STATUS = {
    "notificationType": "PROGRAM_STATUS",
    "properties": {
        "programRunId": '{"application":"up","version":"-SNAPSHOT","type":"Workflow","program":"UpWF","run":"r1",'
        '"namespace":"default","entity":"PROGRAM_RUN"}',
        "programStatus": "COMPLETED",
        "endTime": "1494368640000",
        "userOverrides": '{"a":"b"}',
    },
}
STREAM = {"notificationType": "STREAM_SIZE", "properties": {"streamId": "stream:default.s", "streamSize": "12"}}


def json_values() -> st.SearchStrategy[Any]:
    numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    scalars = st.none() | st.booleans() | numbers | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(string.ascii_letters, max_size=8), inner, max_size=3)
        ),
        max_leaves=8,
    )


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with something somewhere replaced, removed or added."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["inside", "inside", "inside", "remove", "add"])):
            case "remove":
                return {name: item for name, item in value.items() if name != key}
            case "add":
                known = ["specversion", "signal", "notificationType", "v", "data_base64", "count"]
                return {**value, draw(st.sampled_from(known)): draw(json_values())}
            case _:
                return {**value, key: draw(mutated(value[key]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(mutated(value[place])), *value[place + 1 :]]
    if isinstance(value, str) and value[:2] in ('{"', "[{") and draw(st.booleans()):
        return orjson.dumps(draw(mutated(orjson.loads(value)))).decode()
    return draw(json_values())


def valid_documents() -> st.SearchStrategy[Any]:
    """Documents that some decoder takes."""
    outside = world.events(world.facts_from_outside())
    return (
        outside.map(lambda event: native.to_plain(native.to_json(event)))
        | outside.map(lambda event: native.to_plain(cloudevents.to_json(event)))
        | st.sampled_from([NOTIFICATION, STATUS, STREAM])
        | drawn.signals().map(lambda signal: orjson.loads(signal_codec.encode(signal)[1]))
        | drawn.trigger_states().map(lambda each: orjson.loads(state.encode(each)))
        | drawn.ready_jobs().map(lambda job: orjson.loads(launch.encode(job)))
    )


def refusal(decode: Callable[[bytes], object], raw: bytes) -> DecodeError | None:
    try:
        decode(raw)
    except DecodeError as error:
        return error
    return None


def give_a_value_or_say_where(raw: bytes) -> None:
    for decode in DECODERS:
        error = refusal(decode, raw)
        assert error is None or (error.path.startswith("$") and error.reason)


@USUAL
@given(st.binary(max_size=64))
@example(b"")
@example(b"null")
@example(b"[" * 2000 + b"]" * 2000)
@example(b'{"id":"\xff","source":"s"}')
@example(b'{"id":"","source":""}')
@example(b'{"id":"a')
@example(b'{"id":"a","source":"b')
def test_any_bytes_give_a_value_or_say_where_they_do_not(raw: bytes) -> None:
    give_a_value_or_say_where(raw)


@USUAL
@given(json_values())
def test_any_json_gives_a_value_or_says_where_it_does_not(value: Any) -> None:
    give_a_value_or_say_where(orjson.dumps(value))


@examples(250)
@given(valid_documents().flatmap(mutated))
def test_almost_right_json_gives_a_value_or_says_where_it_does_not(value: Any) -> None:
    give_a_value_or_say_where(orjson.dumps(value))


@USUAL
@given(world.events(world.facts_from_outside()))
def test_events_come_back_equal_from_native_json_and_from_cloudevents(event: Event) -> None:
    assert decode_event(event_codec.encode(event)) == event
    assert decode_event(cloudevents.encode(event)) == event


@USUAL
@given(world.events(world.facts_from_outside()))
def test_events_come_back_equal_from_binary_cloudevents(event: Event) -> None:
    said = native.to_plain(cloudevents.to_json(event))
    headers = {f"Ce-{name}": quote(value) for name, value in said.items() if name != "data"}

    assert cloudevents.decode_binary(headers, orjson.dumps(said["data"]), fallback_time=NOW) == event


@USUAL
@given(drawn.signals())
def test_signals_come_back_equal(signal: Signal) -> None:
    assert signal_codec.decode(*signal_codec.encode(signal)) == signal


@USUAL
@given(drawn.trigger_states())
def test_states_come_back_equal_and_share_their_events(kept: TriggerState) -> None:
    back = state.decode(state.encode(kept))

    assert back == kept
    assert back.cell.held == kept.cell.held
    assert back.plan == kept.plan
    mentioned = [event for has in kept.accumulations.values() for event in has.events]
    again = [event for has in back.accumulations.values() for event in has.events]
    assert len({id(event) for event in again}) == len({id(event) for event in mentioned})


@USUAL
@given(drawn.ready_jobs() | drawn.submitted_jobs())
def test_ready_jobs_come_back_equal(job: ReadyJob) -> None:
    assert launch.decode(launch.encode(job)) == job


@USUAL
@given(drawn.ready_jobs())
def test_a_program_is_given_every_contributing_event(job: ReadyJob) -> None:
    reported = facts.native(job)

    assert orjson.loads(orjson.dumps(reported)) == reported
    for leaf, part in zip(reported["leaves"], job.contributions, strict=True):
        assert leaf["leaf"] == part.leaf
        assert tuple(native.from_json(event) for event in leaf["events"]) == part.events


@USUAL
@given(world.triggers(), drawn.logs(control=False))
def test_cdaps_shape_can_be_reported_for_any_trigger(trigger: Any, log: list[Signal]) -> None:
    kept = None
    for signal in [Put(world.SCHEDULE, 1, True, trigger), *log[1:]]:
        folded = fold(kept, signal, at=NOW)
        kept = folded.state
        for job in folded.jobs:
            info = facts.triggering_schedule_info(job, trigger=trigger)
            orjson.dumps(info)
            assert info["name"] == world.SCHEDULE.name
            wanted = {c.leaf: c.count for c in job.contributions}
            listed = [leaf for leaf in dict.fromkeys(leaves(trigger)) if isinstance(leaf, Partitions)]
            infos = [each for each in info["triggerInfos"] if each["type"] == "PARTITION"]
            for leaf, each in zip(listed, infos, strict=True):
                assert f"{each['datasetNamespace']}.{each['datasetName']}" == str(leaf.dataset)
                assert each["expectedNumPartitions"] == leaf.count
                assert each["actualNumPartitions"] == wanted.get(leaf_id(leaf), 0)


def test_a_mapping_of_any_kind_can_be_encoded() -> None:
    assert orjson.loads(native.dumps({"a": MappingProxyType({"b": "c"})})) == {"a": {"b": "c"}}

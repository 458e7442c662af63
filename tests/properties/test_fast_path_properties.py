"""What the straight line reads, it reads as the slow way does, from the very bytes that travel on."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.codec import event as event_codec
from streamsched.codec.events import fast_path, native
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples

NOW = datetime(2013, 1, 7, tzinfo=UTC)
USUAL = examples(300)

DAY = Partition("day=7", {"day": "7"}, 1, None)
PLAIN = event_codec.encode(Event("e1", "s", NOW, PartitionsAdded(DatasetRef("default", "flights"), (DAY,), 1)))
ODD = st.sampled_from([None, True, 0, -1, 2**63, 1.5, "", "a\x00", "\u2028", "a.b.c d", "log:1", [], {}, [[]], ["a=1"]])
FIELDS = st.sampled_from(
    ["id", "source", "time", "type", "data", "signal", "specversion", "notificationType", "traceparent", "x"]
)


@st.composite
def odd(draw: st.DrawFn, value: object) -> object:
    """`value` with one thing in it, at any depth, replaced, removed or added."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        field = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["inside", "inside", "remove", "add", "last"])):
            case "inside":
                return {**value, field: draw(odd(value[field]))}
            case "remove":
                return {name: item for name, item in value.items() if name != field}
            case "last":
                return {**{name: item for name, item in value.items() if name != field}, field: value[field]}
            case _:
                return {**value, draw(FIELDS): draw(ODD)}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(odd(value[place])), *value[place + 1 :]]
    return draw(ODD)


def agrees_with_the_slow_way(raw: bytes) -> bool:
    """False when the straight line leaves it to the slow way."""
    read = fast_path.read_occurred(raw)
    if read is None:
        return False
    key, signal = read
    event = event_codec.decode(raw, fallback_id="log:t/0/1", fallback_time=NOW)
    assert signal.event == event
    assert key == event.key.encode()
    assert signal_codec.decode(key, raw) == signal
    assert signal.event.encoded == raw
    return True


@USUAL
@given(world.events(world.partitions_added()))
def test_partitions_added_as_we_write_them_are_read_as_the_slow_way_reads_them(event: Event) -> None:
    assert agrees_with_the_slow_way(event_codec.encode(event)) or not (
        event.id.isprintable() and event.source.isprintable() and not {*event.id, *event.source} & {'"', "\\"}
    )


@examples(1000)
@given(world.events(world.partitions_added()).flatmap(lambda event: odd(native.to_plain(native.to_json(event)))))
def test_what_is_almost_as_we_write_it_is_read_alike_or_left_alone(value: object) -> None:
    try:
        raw = orjson.dumps(value)
    except TypeError:
        return
    agrees_with_the_slow_way(raw)


@USUAL
@given(st.integers(0, len(PLAIN) - 1), st.integers(0, 12), st.binary(max_size=12))
def test_bytes_changed_anywhere_are_read_alike_or_left_alone(start: int, length: int, other: bytes) -> None:
    agrees_with_the_slow_way(PLAIN[:start] + other + PLAIN[start + length :])


@USUAL
@given(FIELDS, ODD | st.sampled_from(["e2", "t"]), st.booleans())
@example("id", "e1", False)
@example("id", "e2", False)
def test_fields_said_twice_are_read_alike_or_left_alone(field: str, value: object, first: bool) -> None:
    said = b'"%s":%s' % (field.encode(), orjson.dumps(str(value) if value == 2**63 else value))
    agrees_with_the_slow_way(b"{" + said + b"," + PLAIN[1:] if first else PLAIN[:-1] + b"," + said + b"}")


@USUAL
@given(st.binary(max_size=64))
@example(b"null")
@example(b"[" * 2000 + b"]" * 2000)
def test_any_bytes_are_left_alone(raw: bytes) -> None:
    assert fast_path.read_occurred(raw) is None


TRACED = b'"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"'


@pytest.mark.parametrize("more", [b'"signal":"put"', b'"specversion":"1.0"', b'"x":1', b'"id":"e2"'])
@pytest.mark.parametrize("traced", [TRACED, b'"traceparent":null', b'"traceparent":"no context"'])
def test_a_context_lets_no_other_field_pass(traced: bytes, more: bytes) -> None:
    for raw in (PLAIN[:-1] + b"," + traced + b"," + more + b"}", PLAIN[:-1] + b"," + more + b"," + traced + b"}"):
        assert fast_path.read_occurred(raw) is None


def test_an_event_as_we_write_it_takes_the_straight_line_and_others_do_not() -> None:
    assert agrees_with_the_slow_way(PLAIN)
    assert agrees_with_the_slow_way(PLAIN[:-1] + b"," + TRACED + b"}")
    assert fast_path.read_occurred(PLAIN[:-1] + b"," + TRACED.replace(b"4bf", b"4BF") + b"}") is None
    assert fast_path.read_occurred(PLAIN.replace(b'{"id":"e1","source":"s"', b'{"source":"s","id":"e1"')) is None
    assert fast_path.read_occurred(PLAIN.replace(b'"e1"', b'"log:1"')) is None
    assert fast_path.read_occurred(PLAIN.replace(b"00Z", b"00+01:00")) is None


def test_the_slow_way_says_what_is_wrong() -> None:
    wrong = PLAIN.replace(b'"bytes":1', b'"bytes":-1')
    assert fast_path.read_occurred(wrong) is None
    with pytest.raises(DecodeError) as refused:
        event_codec.decode(wrong, fallback_id="log:t/0/1", fallback_time=NOW)
    assert refused.value.path == "$.data.partitions[0].bytes"


@pytest.mark.parametrize("depth", [10, 300, 1000])
@pytest.mark.parametrize("field", ["id", "source", "time"])
def test_what_is_nested_as_deeply_as_it_can_be_parsed_is_left_alone(field: str, depth: int) -> None:
    raw = PLAIN.replace(orjson.dumps(orjson.loads(PLAIN)[field]), b"[" * depth + b"]" * depth)

    assert orjson.loads(raw)[field] != orjson.loads(PLAIN)[field]
    assert fast_path.read_occurred(raw) is None

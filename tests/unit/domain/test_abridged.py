"""What errors show of a value is short, and costs little, however large or deep the value is."""

from __future__ import annotations

import time

import pytest

from streamsched.codec import event
from streamsched.domain.errors import DecodeError
from streamsched.domain.limits import abridge


@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_an_event_that_is_nested_deeply_is_refused(opened: str) -> None:
    closed = {"[": "]", '{"a":': "}"}[opened]
    name = f"{opened * 1000}1{closed * 1000}"
    envelope = '"id": "e", "source": "s", "time": "2026-01-01T00:00:00Z", "type": "custom"'
    body = f'{{{envelope}, "data": {{"name": {name}}}}}'

    with pytest.raises(DecodeError, match="nested deeper"):
        event.decode(body.encode(), fallback_id="f", fallback_time=None)  # type: ignore[arg-type]


def test_a_large_value_is_shown_by_its_beginning() -> None:
    began = time.process_time()

    assert abridge("x" * 10_000_000) == "'" + "x" * 59 + "…"
    assert abridge(list(range(5_000_000))).startswith("[0, 1, 2, ")
    assert time.process_time() - began < 1


def test_a_value_deeper_than_pythons_stack_is_shown() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]

    assert abridge(deep).startswith("[[[[")


def test_a_small_value_is_shown_as_it_is() -> None:
    for value in ("a", 1, None, [1, [2, {"a": None}]], {"a": "b"}, 1.5):
        assert abridge(value) == repr(value)

"""JSON from outside is nested no deeper than readers that recurse can follow."""

from __future__ import annotations

import gc
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.json.scalar import DEEPEST, elements, loads
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.domain.errors import DecodeError

_JSON = st.recursive(
    st.integers(0, 9) | st.text('[]{}a"', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("[]{}"), inner, max_size=3),
)


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deeper_is_refused_and_as_deep_is_taken(opened: str, closed: str) -> None:
    levels = 2 if opened.startswith("[{") else 1
    fits = DEEPEST // levels

    assert loads(opened * fits + "1" + closed * fits)
    for times in (fits + 1, 1000 // levels):
        with pytest.raises(DecodeError, match="nested deeper than 240 levels"):
            loads(opened * times + "1" + closed * times)


def test_one_deep_element_of_a_list_is_refused_alone() -> None:
    deep, deepest = "[" * 900 + "]" * 900, "[" * DEEPEST + "]" * DEEPEST

    found = elements(f'[1, {deep}, {deepest}, {{"a": "\\u0000"}}, "b"]')

    assert [found[0], found[2], found[4]] == [1, orjson.loads(deepest), "b"]
    assert [(each.path, each.reason) for each in found if isinstance(each, DecodeError)] == [
        ("$[1]", "is nested deeper than 240 levels"),
        ("$[3].a", "must not hold a NUL character"),
    ]


@given(_JSON)
def test_what_is_flat_is_taken_whatever_brackets_its_texts_hold(value: object) -> None:
    wide = [value, "[" * 300, {"]" * 300: "{" * 300}, [[]] * 300]

    assert loads(orjson.dumps(wide)) == wide


def test_a_definition_that_is_nested_deeply_is_refused() -> None:
    deep = "[" * 1000 + "]" * 1000
    trigger = f'{{"type": "EVERY", "interval": "1h", "calendar": {{"weekdays": {deep}}}}}'
    body = f'{{"application": "a", "schedules": [{{"name": "s", "program": "p", "trigger": {trigger}}}]}}'

    with pytest.raises(DecodeError):
        app_from_json(loads(body))


def test_the_depth_of_a_large_event_costs_little() -> None:
    raw = orjson.dumps({"data": {"partitions": [{"values": {"a": "b"}}] * 200_000}})
    gc.disable()  # a collection visits all that other tests left
    try:
        began = time.process_time()
        orjson.loads(raw)
        parsed = time.process_time() - began
        began = time.process_time()
        loads(raw)
        took = time.process_time() - began
    finally:
        gc.enable()

    assert took < 3 * parsed + 0.1

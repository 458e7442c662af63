"""A NUL in a text is refused where JSON is read, in every field and for every reader: PostgreSQL could not hold it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.events.native import fact_from_json
from streamsched.codec.json.scalar import loads, parse
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.emit.draft import partitions_added

# Backslashes, and what looks like an escape behind them, are no NUL.
TEXTS = st.lists(st.sampled_from(["\0", "\\", "u0000", "a"]), max_size=4).map("".join)
DOCUMENTS = st.recursive(
    TEXTS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def holds_nul(value: Any) -> bool:
    """The naive way: of everything in it."""
    if isinstance(value, dict):
        return any(holds_nul(each) for pair in value.items() for each in pair)
    return "\0" in value if isinstance(value, str) else isinstance(value, list) and any(map(holds_nul, value))


@given(DOCUMENTS, st.booleans())
def test_json_is_refused_exactly_when_some_text_in_it_holds_one(document: Any, as_text: bool) -> None:
    written = orjson.dumps(document)
    raw = written.decode() if as_text else written
    if holds_nul(document):
        with pytest.raises(DecodeError, match="NUL"):
            loads(raw)
    else:
        assert loads(raw) == document
    assert parse(raw) == document


def test_the_path_of_the_text_is_named() -> None:
    with pytest.raises(DecodeError) as refused:
        loads(b'{"a": [{"b": "fine"}, {"c": "a\\u0000b"}]}', "$.data")

    assert refused.value.path == "$.data.a[1].c"


@pytest.mark.parametrize(
    ("partition", "path"),
    [("day=20%0011", "$.data.partitions[0]"), ({"key": "day=20%0011"}, "$.data.partitions[0].key")],
)
def test_an_escaped_one_in_a_partition_key_is_refused_with_its_path(partition: object, path: str) -> None:
    """Found by fuzzing: its columns are unescaped, and the event in the log could not be read again."""
    with pytest.raises(DecodeError, match="NUL") as refused:
        fact_from_json("partitions.added", {"dataset": "d", "partitions": [partition]}, "$")
    assert refused.value.path == path


def test_an_emitter_refuses_an_escaped_one() -> None:
    with pytest.raises(InvalidError, match="NUL"):
        partitions_added("default.d", ["day=20%0011"])

"""Which commits are new for a consumer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import DecodeError
from streamsched.domain.names import DatasetRef
from streamsched.spark.consumed import Consumed
from streamsched.spark.manifest import Manifest, Mode

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def commit(sequence: int, name: str = "") -> Manifest:
    dataset = DatasetRef("default", "x")
    return Manifest(name or f"c{sequence}", sequence, dataset, NOW, Mode.APPEND, ("day",), "{}", ())


@given(st.lists(st.integers(1, 50), unique=True), st.integers(0, 50))
def test_what_was_consumed_is_not_new_and_the_rest_is(sequences: list[int], cut: int) -> None:
    commits = [commit(each) for each in sorted(sequences)]
    consumed = Consumed.decode(Consumed.all_of([each for each in commits if each.sequence <= cut]).encode())

    assert consumed.select_new(commits) == [each for each in commits if each.sequence > cut]
    assert Consumed.decode("").select_new(commits) == commits


def test_numbered_commits_need_no_names() -> None:
    assert Consumed.all_of([commit(n) for n in range(1, 100_000)]) == Consumed(99_999)


@pytest.mark.parametrize("value", ["x", "[]", "{}", '{"sequence": -1}'])
def test_another_value_is_refused(value: str) -> None:
    with pytest.raises(DecodeError):
        Consumed.decode(value)

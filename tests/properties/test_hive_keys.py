"""Keys of partitions in Hive's style."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamsched.emit.draft import hive_key, hive_values

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_the_values_of_a_key_are_those_it_was_made_of(values: dict[str, str]) -> None:
    assert hive_values(hive_key(values)) == values


@given(st.lists(st.dictionaries(st.sampled_from("ab"), TEXT, min_size=2, max_size=2), min_size=2, max_size=2))
def test_other_values_have_another_key(pair: list[dict[str, str]]) -> None:
    one, other = ({"a": each["a"], "b": each["b"]} for each in pair)

    assert (hive_key(one) == hive_key(other)) == (one == other)

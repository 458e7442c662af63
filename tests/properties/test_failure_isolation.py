"""Properties: halving finds exactly the items that fail, in order, with few attempts."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import ConfigurationError, ConflictError, FencedError, UnavailableError
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.ports.broker import Chunk, Record


def attempt(fails: list[bool]) -> tuple[list[int], list[int], int]:
    """The items that succeeded, those that failed alone, and how many attempts that took."""
    stored, refused, attempts = list[int](), list[int](), 0
    search = FailureIsolation(range(len(fails)))
    for group in search:
        attempts += 1
        try:
            if any(fails[item] for item in group):
                raise ConflictError("an item of this group fails")
            stored += group
        except ConflictError as failure:
            if not search.halve(failure):
                refused += group
    return stored, refused, attempts


@given(st.lists(st.booleans()))
def test_exactly_the_failing_items_are_refused(fails: list[bool]) -> None:
    stored, refused, _ = attempt(fails)
    assert stored == [item for item, failing in enumerate(fails) if not failing]
    assert refused == [item for item, failing in enumerate(fails) if failing]


@given(st.lists(st.booleans(), min_size=1))
def test_attempts_grow_with_the_logarithm_of_the_items(fails: list[bool]) -> None:
    *_, attempts = attempt(fails)
    assert attempts <= 1 + 2 * sum(fails) * ceil(log2(len(fails)))


@given(st.lists(st.sampled_from(["stored", "fails", "fails together"]), max_size=40))
def test_every_item_is_attempted_in_order_whatever_fails(kinds: list[str]) -> None:
    """Also where a group fails for no reason that its halves have: items come in order, each once at the end."""
    ends = list[int]()
    search = FailureIsolation(range(len(kinds)))
    for group in search:
        fails = any(kinds[item] == "fails" for item in group)
        together = len(group) > 1 and any(kinds[item] == "fails together" for item in group)
        if (fails or together) and search.halve(ConflictError("fails")):
            continue
        ends += group
    assert ends == list(range(len(kinds)))


@given(st.sets(st.integers(0, 50), min_size=1), st.integers(0, 3), st.sets(st.integers(0, 50)))
def test_parts_of_a_chunk_follow_each_other_to_its_end(offsets: set[int], gap: int, bad: set[int]) -> None:
    """Whatever gaps lie between its records, the parts' positions leave none of them out and end with the chunk's."""
    chunk = Chunk("t", 0, [Record(offset, None, None, 0) for offset in sorted(offsets)], max(offsets) + 1 + gap)
    position, read = 0, list[int]()
    search = FailureIsolation(chunk.records)
    for records in search:
        part = chunk.part(records)
        if bad.intersection(record.offset for record in records) and search.halve(ConflictError("fails")):
            continue
        assert all(position <= record.offset < part.next_position for record in part.records)
        position = part.next_position
        read += [record.offset for record in part.records]
    assert (read, position) == (sorted(offsets), chunk.next_position)


def test_no_items_are_one_group() -> None:
    """A position of the log may have to be stored although there are no records before it."""
    search = FailureIsolation(())
    assert [search.halve(ConflictError("fails")) for _ in search] == [False]


@pytest.mark.parametrize("failure", [UnavailableError("gone"), FencedError("writer"), ConfigurationError("wrong")])
def test_a_failure_of_the_installation_is_no_items(failure: Exception) -> None:
    search = FailureIsolation([1, 2])
    assert next(iter(search)) == [1, 2]
    with pytest.raises(type(failure)):
        search.halve(failure)

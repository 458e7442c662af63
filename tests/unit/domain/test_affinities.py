"""Where schedules live: the home of an event key they listen to, until it has enough of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import schedule_key
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import MOST_OF_ONE_KEY, choose_affinity, home, key_hash, schedule_of

NIGHTLY = ScheduleRef("default", "a", "nightly")
KEYS = [f"partition:default.d{number}" for number in range(5)]

names = st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable() and "/" not in name)
hashes = st.integers(0, 2**32 - 1)


@given(names, st.none() | hashes, st.integers(1, 1000))
def test_a_record_key_says_whose_it_is_and_where_it_lives(name: str, affinity: int | None, shards: int) -> None:
    ref = ScheduleRef("default", "a", name)
    key = schedule_key(ref, affinity)

    assert schedule_of(key.encode()) == (ref, affinity)
    assert home(key, shards) == home(key.encode(), shards)
    if affinity is not None:
        assert home(key, shards) == affinity % shards


@given(st.sampled_from(KEYS), st.integers(1, 1000))
def test_a_schedule_lives_with_its_event_key_in_any_number_of_shards(key: str, shards: int) -> None:
    assert home(schedule_key(NIGHTLY, key_hash(key)), shards) == home(key, shards)


@pytest.mark.parametrize(
    "key", [b"schedule:a", b"schedule:default.a.s@12", b"schedule:default.a.s@0000000G", b"schedule:\xff"]
)
def test_a_key_that_names_no_schedule_has_a_home_all_the_same(key: bytes) -> None:
    with pytest.raises(InvalidError):
        schedule_of(key)
    assert 0 <= home(key, 7) < 7


@given(st.lists(st.sets(st.sampled_from(KEYS), max_size=4), max_size=100))
def test_no_key_gets_more_schedules_than_its_share_and_none_is_spread_before(wanted: list[set[str]]) -> None:
    taken: Counter[int] = Counter()
    for keys in wanted:
        affinity = choose_affinity(keys, taken)
        free = {key_hash(key) for key in keys if taken[key_hash(key)] < MOST_OF_ONE_KEY}
        if affinity is None:
            assert not free
        else:
            assert affinity in free
            assert taken[affinity] == min(taken[each] for each in free)
            taken[affinity] += 1

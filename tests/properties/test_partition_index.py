"""The index of partitions is a dict, however many keys it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.events.partition_index import PartitionIndex, Place
from streamsched.testing.examples import examples

LARGEST = 2**63 - 1
PLACES = st.builds(Place, st.integers(0, 2**47), st.sampled_from([0, 1, 2**40, LARGEST]))
#: Each step puts or removes so many keys in a row, from one on.
STEPS = st.tuples(st.booleans(), st.integers(0, 2_000), st.sampled_from([1, 7, 700, 2_000]), PLACES)


@examples(60)
@given(st.lists(STEPS, max_size=8))
def test_it_is_a_dict(steps: list[tuple[bool, int, int, Place]]) -> None:
    index, model = PartitionIndex(), dict[str, Place]()
    for puts, first, many, place in steps:
        for number in range(first, first + many):
            key = f"day={number}/région=\ud800{number % 3}"
            if puts:
                assert index.put(key, place) == model.get(key)
                model[key] = place
            else:
                index.pop(key)
                model.pop(key, None)
        assert len(index) == len(model)
    for number in range(4_000):
        key = f"day={number}/région=\ud800{number % 3}"
        assert index.get(key) == model.get(key)
        assert (key in index) == (key in model)

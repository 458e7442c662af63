"""An import that is killed leaves every schedule as it was, as it was exported, or missing; no commit is too large."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from streamsched.admin.batching import BatchLimits, batches
from streamsched.admin.restoration import changes
from streamsched.ports.broker import Outgoing

Rows = Mapping[bytes, bytes]

ROOTS = (b"schedule:a", b"schedule:b", b"schedule:c")
rows = st.dictionaries(
    st.sampled_from(ROOTS).flatmap(lambda root: st.sampled_from([root, *(b"%s\x1f%d" % (root, n) for n in range(4))])),
    st.binary(max_size=4),
)
batch_limits = st.builds(BatchLimits, st.integers(1, 6), st.integers(1, 60))


def of(root: bytes, table: Rows) -> Rows:
    return {key: value for key, value in table.items() if key.startswith(root)}


@given(rows, rows, batch_limits)
def test_no_schedule_is_incomplete_between_two_commits(has: Rows, want: Rows, limits: BatchLimits) -> None:
    table = dict(has)
    for batch in batches(changes("t", 0, has, want, limits), limits):
        assert len(batch) == 1 or limits.fit(batch)
        for row in batch:
            assert row.key is not None
            if row.value is None:
                table.pop(row.key)
            else:
                table[row.key] = row.value
        for root in ROOTS:
            now = of(root, table)
            assert now in (of(root, has), of(root, want)) or root not in now

    assert table == want


@given(st.lists(st.lists(st.binary(max_size=9).map(lambda value: Outgoing("t", 0, b"k", value)))), batch_limits)
def test_rows_keep_their_order_and_groups_stay_together(groups: list[list[Outgoing]], limits: BatchLimits) -> None:
    found = list(batches(groups, limits))

    assert [row for batch in found for row in batch] == [row for group in groups for row in group]
    assert all(found)
    assert all(len(batch) == 1 or limits.fit(batch) for batch in found)
    ends = {sum(map(len, found[:nth])) for nth in range(1, len(found))}
    place = 0
    for group in groups:
        if limits.fit(group):
            assert not ends & set(range(place + 1, place + len(group)))
        place += len(group)

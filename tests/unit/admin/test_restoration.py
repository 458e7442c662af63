"""An import that is killed leaves every schedule as it was, as it was exported, or missing; no commit is too large."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from streamsched.admin.portions import Room, portions
from streamsched.admin.restoration import changes
from streamsched.ports.broker import Outgoing

Rows = Mapping[bytes, bytes]

ROOTS = (b"schedule:a", b"schedule:b", b"schedule:c")
rows = st.dictionaries(
    st.sampled_from(ROOTS).flatmap(lambda root: st.sampled_from([root, *(b"%s\x1f%d" % (root, n) for n in range(4))])),
    st.binary(max_size=4),
)
rooms = st.builds(Room, st.integers(1, 6), st.integers(1, 60))


def of(root: bytes, table: Rows) -> Rows:
    return {key: value for key, value in table.items() if key.startswith(root)}


@given(rows, rows, rooms)
def test_between_two_commits_no_schedule_is_half_of_this_and_half_of_that(has: Rows, want: Rows, room: Room) -> None:
    table = dict(has)
    for portion in portions(changes("t", 0, has, want, room), room):
        assert len(portion) == 1 or room.takes(portion)
        for row in portion:
            assert row.key is not None
            if row.value is None:
                table.pop(row.key)
            else:
                table[row.key] = row.value
        for root in ROOTS:
            now = of(root, table)
            assert now in (of(root, has), of(root, want)) or root not in now

    assert table == want


@given(st.lists(st.lists(st.binary(max_size=9).map(lambda value: Outgoing("t", 0, b"k", value)))), rooms)
def test_rows_keep_their_order_and_groups_stay_together(groups: list[list[Outgoing]], room: Room) -> None:
    found = list(portions(groups, room))

    assert [row for portion in found for row in portion] == [row for group in groups for row in group]
    assert all(found)
    assert all(len(portion) == 1 or room.takes(portion) for portion in found)
    ends = {sum(map(len, found[:nth])) for nth in range(1, len(found))}
    place = 0
    for group in groups:
        if room.takes(group):
            assert not ends & set(range(place + 1, place + len(group)))
        place += len(group)

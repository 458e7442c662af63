"""Leaves are given apart by their value."""

from __future__ import annotations

from datetime import timedelta

from streamsched.domain.triggers.trigger import Every, leaf_id


def test_long_intervals_that_differ_are_different_leaves() -> None:
    weeks = timedelta(weeks=2)

    assert leaf_id(Every(weeks)) == "every:1209600s"
    assert leaf_id(Every(weeks)) != leaf_id(Every(weeks + timedelta(seconds=1)))
    assert leaf_id(Every(timedelta(days=9000))) != leaf_id(Every(timedelta(days=9000, microseconds=1)))

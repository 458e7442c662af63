"""The judges of commits and of attempts find what they must."""

from __future__ import annotations

import pytest

from tests.faults.judges.file_sets import Slept, judge_attempts, judge_commits
from tests.faults.writers.processes import DAYS


def whole(job: str, attempt: int) -> list[tuple[str, int]]:
    return [(job, attempt)] * attempt * len(DAYS)


@pytest.mark.parametrize(
    ("slept", "rows", "counted", "verdict"),
    [
        (Slept("a", False, ("committed", "committed")), whole("a", 1), 3, (0, 0, 0, 0)),
        (Slept("a", True, ("fenced", "committed")), whole("a", 2), 3, (0, 0, 0, 0)),
        (Slept("a", True, ("fenced", "committed")), whole("a", 1), 3, (1, 0, 0, 0)),
        (Slept("a", True, ("committed", "committed")), whole("a", 2), 3, (0, 0, 1, 0)),
        (Slept("a", False, ("committed", "committed")), whole("a", 1) + whole("a", 2), 6, (0, 1, 0, 3)),
        (Slept("a", False, ("committed", "committed")), whole("a", 1) * 2, 3, (0, 1, 0, 0)),
        (Slept("a", False, ("committed", "committed")), whole("a", 2)[:-1], 3, (0, 0, 1, 0)),
        (Slept("a", False, ("fenced", "failed: x")), [], 0, (0, 0, 2, 3)),
    ],
    ids=["adopted", "replaced", "zombie", "confirmed", "both", "twice", "in part", "none"],
)
def test_what_the_judge_of_attempts_finds(
    slept: Slept, rows: list[tuple[str, int]], counted: int, verdict: tuple[int, int, int, int]
) -> None:
    found = judge_attempts([slept], rows, counted)

    assert tuple(found[kind] for kind in found.kinds) == verdict, found.words


A, B = {"day=1": 3, "day=2": 3}, {"day=1": 1}


@pytest.mark.parametrize(
    ("visible", "confirmed", "events", "counted", "verdict"),
    [
        ({"a": A, "b": B}, ["a"], [("a", A), ("b", B), ("a", A)], 3, (0, 0, 0)),
        ({"a": A}, ["a", "b"], [("a", A)], 2, (0, 1, 0)),
        ({"a": A, "b": B}, [], [("a", A)], 3, (0, 1, 0)),
        ({"a": A}, [], [("a", {"day=1": 3})], 2, (1, 0, 0)),
        ({"a": A}, [], [("a", A), ("b", B)], 2, (1, 0, 0)),
        ({"a": A}, [], [("a", A)], 1, (0, 1, 0)),
        ({"a": A}, [], [("a", A), ("a", A)], 4, (0, 0, 2)),
    ],
    ids=["repeated", "not visible", "no event", "half an event", "event of nothing", "not counted", "counted twice"],
)
def test_what_the_judge_finds(
    visible: dict[str, dict[str, int]],
    confirmed: list[str],
    events: list[tuple[str, dict[str, int]]],
    counted: int,
    verdict: tuple[int, int, int],
) -> None:
    found = judge_commits(visible=visible, confirmed=confirmed, events=events, counted=counted)

    assert tuple(found[kind] for kind in found.kinds) == verdict, found.words


def test_what_a_reader_saw_is_half_a_commit() -> None:
    assert judge_commits(visible={}, confirmed=[], events=[], counted=0, seen_half=["unequal"])["half"] == 1

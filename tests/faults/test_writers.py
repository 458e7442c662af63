"""A short run of `writers` on one store of each kind, and what its judge finds. `make writers` has the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.writers.__main__ import run, run_attempts
from tests.faults.writers.judge import judge
from tests.faults.writers.processes import DAYS
from tests.faults.writers.zombies import Slept, judge_zombies

NIGHTLY = pytest.mark.nightly


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", [pytest.param("s3", marks=NIGHTLY), "delta"])
def test_killed_writers_and_watchers_leave_no_half_commit(store: str, tmp_path: Path) -> None:
    line, well = run(tmp_path, store=store, kills=3, seed=1)

    assert well, line


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "store", ["folder", "file", "delta", *(pytest.param(each, marks=NIGHTLY) for each in ("plain", "s3", "iceberg"))]
)
def test_attempts_that_were_replaced_commit_nothing(store: str, tmp_path: Path) -> None:
    line, well = run_attempts(tmp_path, store=store, jobs=10, seed=1)

    assert well, line


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
def test_what_the_judge_of_zombies_finds(
    slept: Slept, rows: list[tuple[str, int]], counted: int, verdict: tuple[int, int, int, int]
) -> None:
    found = judge_zombies([slept], rows, counted)

    assert (found.zombies, found.twice, found.missing, found.events) == verdict, found.words


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
    found = judge(visible=visible, confirmed=confirmed, events=events, counted=counted)

    assert (found.half, found.lost, found.doubled) == verdict, found.words


def test_what_a_reader_saw_is_half_a_commit() -> None:
    assert judge(visible={}, confirmed=[], events=[], counted=0, seen_half=["unequal"]).half == 1

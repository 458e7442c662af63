"""The judge of graphs finds what it must."""

from __future__ import annotations

import pytest

from tests.faults.graphs import seed_edges
from tests.faults.judges.graphs import Work, judge_graph
from tests.support.judgement import Judgement


def _work() -> Work:
    return Work({"a 1": [], "b 1": [["a 1"]]}, ["a 1"])


_GOOD = [each.split() for each in ("began a 1 r1", "done a 1 r1", "began b 1 r2", "done b 1 r2")]
_COMPLETED = {"a 1": "COMPLETED", "b 1": "COMPLETED"}


@pytest.mark.parametrize(
    ("states", "runs", "lines", "verdict"),
    [
        (_COMPLETED, {"r1": "COMPLETED", "r2": "COMPLETED"}, _GOOD, (0, 0, 0)),
        (_COMPLETED, {"r1": "COMPLETED"}, _GOOD[:2], (1, 0, 0)),
        ({"a 1": "COMPLETED", "b 1": "QUEUED"}, {"r1": "COMPLETED"}, _GOOD[:2], (2, 0, 0)),
        (_COMPLETED, {"r1": "COMPLETED", "r2": "COMPLETED"}, [*_GOOD, _GOOD[3]], (0, 2, 0)),
        (_COMPLETED, {"r1": "COMPLETED", "r2": "COMPLETED"}, [*_GOOD[2:], *_GOOD[:2]], (0, 0, 1)),
        (
            _COMPLETED,
            {"r1": "COMPLETED", "r0": "LOST", "r2": "COMPLETED"},
            [["began", "a", "1", "r0"], ["done", "a", "1", "r0"], *_GOOD],
            (0, 0, 0),
        ),
    ],
)
def test_what_the_judge_finds(
    states: dict[str, str], runs: dict[str, str], lines: list[list[str]], verdict: tuple[int, int, int]
) -> None:
    found = Judgement()
    judge_graph(_work(), states, runs, lines, found)
    assert (found.lost, found.doubled, found.wrong) == verdict, found.words


@pytest.mark.parametrize(
    ("again", "before", "lost"),
    [("a 1", 0, 0), ("a 1", 3, 1), ("b 1", 4, 1)],
    ids=["one that runs is joined", "the work of a is not repeated", "nothing is done after it"],
)
def test_a_submission_while_others_run_has_work_after_it(again: str, before: int, lost: int) -> None:
    work = _work()
    work.overlapping.append((again, before))
    found = Judgement()
    judge_graph(work, _COMPLETED, {"r1": "COMPLETED", "r2": "COMPLETED"}, _GOOD, found)
    assert (found.lost, found.doubled, found.wrong) == (lost, 0, 0), found.words


def test_a_child_older_than_the_last_work_of_its_parent_is_lost() -> None:
    work = _work()
    work.overlapping.append(("a 1", 2))
    lines = [*_GOOD, ["began", "a", "1", "r3"], ["done", "a", "1", "r3"]]
    found = Judgement()
    judge_graph(work, _COMPLETED, {"r1": "COMPLETED", "r2": "COMPLETED", "r3": "COMPLETED"}, lines, found)
    assert (found.lost, found.doubled, found.wrong) == (1, 0, 0), found.words


def test_what_is_wanted_of_the_documented_graph() -> None:
    work = Work(seed_edges("c"), ["modelBuild c_purchaseRevenue"], ["otherPreprocess 20120101_c"])
    wanted = work.wanted
    assert len(wanted) == 7, "both builds of purchases, and what they need"
    assert wanted["modelBuild c_purchaseQuantity"] == (2, 2)
    assert wanted["preprocess 20140601_c"] == (1, 1)

"""The judge of runs with drivers finds what it must."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.faults.judges.drivers import Killed, StoredRun, judge_drivers

#: A run of the job `j` in client mode, and one in a cluster.
HERE = StoredRun("j.r1", "j", "COMPLETED", False, 7)
THERE = StoredRun("j.r1", "j", "COMPLETED", True, 7)
NOTES = [["began", "j.r1", "70"], ["done", "j.r1"]]


@pytest.mark.parametrize(
    ("runs", "notes", "ends", "verdict"),
    [
        ([HERE], NOTES, {}, (0, 0, 0)),
        ([THERE], NOTES, {"j.r1": ["SUCCEEDED"]}, (0, 0, 0)),
        ([HERE], NOTES[:1], {}, (0, 0, 1)),
        ([], [], {}, (1, 0, 0)),
        ([HERE], [*NOTES, ["began", "j.r1", "71"]], {}, (0, 1, 0)),
        ([HERE], [*NOTES, ["overlap", "j.r1"]], {}, (0, 1, 0)),
        ([HERE, HERE._replace(id="j.r2")], [*NOTES, ["began", "j.r2", "72"], ["done", "j.r2"]], {}, (0, 1, 0)),
        ([THERE], NOTES, {"j.r1": ["SUCCEEDED", "SUCCEEDED"]}, (0, 1, 0)),
        ([THERE], NOTES, {"j.r1": ["FAILED"]}, (0, 0, 1)),
        ([THERE._replace(state="FAILED")], NOTES, {"j.r1": ["SUCCEEDED"]}, (1, 0, 1)),
        ([THERE._replace(state="LOST")], NOTES, {"j.r1": ["SUCCEEDED"]}, (1, 0, 1)),
        ([HERE._replace(state="RUNNING")], NOTES[:1], {}, (1, 0, 1)),
    ],
)
def test_what_the_judge_finds(
    runs: Sequence[StoredRun],
    notes: Sequence[Sequence[str]],
    ends: Mapping[str, Sequence[str]],
    verdict: tuple[int, int, int],
) -> None:
    found = judge_drivers(["j"], runs, notes, ends, Killed((), ()))

    assert (found.lost, found.doubled, found.wrong) == verdict, found.words


@pytest.mark.parametrize(
    ("state", "killed", "wrong"),
    [
        ("LOST", Killed({7}, ()), 0),
        ("LOST", Killed({8}, ()), 1),
        ("FAILED", Killed((), {"j.r1"}), 0),
        ("FAILED", Killed({7}, ()), 1),
    ],
)
def test_a_run_fails_or_is_lost_by_what_was_killed(state: str, killed: Killed, wrong: int) -> None:
    again = HERE._replace(id="j.r2")
    notes = [["began", "j.r1", "70"], ["began", "j.r2", "71"], ["done", "j.r2"]]

    assert judge_drivers(["j"], [HERE._replace(state=state), again], notes, {}, killed).wrong == wrong

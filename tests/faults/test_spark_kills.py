"""Short runs of `spark_kills` on the counting `spark-submit`, and what its judge finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.faults.spark.judge import Killed, StoredRun, judge_spark
from tests.faults.spark_kills import run
from tests.support.services import need_java

#: A run of the job `j` in client mode, and one in a cluster.
HERE = StoredRun("j.r1", "j", "COMPLETED", False, 7)
THERE = StoredRun("j.r1", "j", "COMPLETED", True, 7)
NOTES = [["began", "j.r1", "70"], ["done", "j.r1"]]


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
async def test_every_run_ends_once_and_truly_whatever_is_killed(tmp_path: Path) -> None:
    need_java()  # it is only asked for its version

    line, well = await run(tmp_path, "fake", kills=6, seed=2)

    assert well, line


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
async def test_runs_that_end_while_postgresql_is_away_are_not_repeated(tmp_path: Path) -> None:
    need_java()

    line, well = await run(tmp_path, "fake", kills=0, seed=1, outage_s=3.0)

    assert well, line
    assert " runs 2 " in line


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
    found = judge_spark(["j"], runs, notes, ends, Killed((), ()))

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

    assert judge_spark(["j"], [HERE._replace(state=state), again], notes, {}, killed).wrong == wrong

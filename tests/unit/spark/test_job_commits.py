"""A commit belongs to the job: attempts of a job find each other's commits, and an earlier one that still lives is
fenced. Rows are written by Arrow: no Spark is needed here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import pytest

from streamsched.domain.errors import AttemptFencedError, ConflictError
from streamsched.domain.events.event import Event
from streamsched.domain.names import DatasetRef, ProgramRef
from streamsched.emit import Emitted, EventDraft
from streamsched.emit.draft import complete_event
from streamsched.spark.context import RunContext, current_run
from streamsched.spark.manifest import Manifest, Mode, Phase
from streamsched.spark.pfs import Commit, PartitionedFileSet
from streamsched.spark.writes import job_writes
from streamsched.spark.writes.write import commit_of_job, run_named_by
from tests.support.arrow_frame import ArrowFrame
from tests.support.run_environ import process_environ, run_environ

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OUT = DatasetRef("default", "out")


class Announced:
    """Keeps the ids of the events."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def emit(self, *what: EventDraft | Event) -> Emitted:
        self.ids += [complete_event(each, source="test", now=NOW).id for each in what]
        return Emitted(len(what))


class Place:
    """A file set, and the processes that write it: each attempt's environment is read once, as in its process."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.announced = Announced()

    def files(
        self, environ: dict[str, str], watch: Callable[[Phase], None] = lambda _: None, *, name: str = "out"
    ) -> PartitionedFileSet:
        location = f"{self.location}/{name}"
        return PartitionedFileSet(name, location, emitter=self.announced, environ=environ, watch=watch)

    def write(
        self, environ: dict[str, str], rows: int = 3, *, name: str = "out", days: int = 1, **given: Any
    ) -> Commit:
        frame = cast("Any", ArrowFrame({f"day={day}": rows for day in range(days)}))
        return self.files(environ, name=name).write(frame, **{"partition_by": ["day"], **given})

    def rows(self, name: str = "out") -> int:
        return sum(each.rows or 0 for each in self.files({}, name=name).partitions())

    def log(self) -> list[Manifest]:
        return self.files({})._store.manifests()


@pytest.fixture(params=["folder", "url"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(str(tmp_path) if request.param == "folder" else f"file://{tmp_path}")


@pytest.fixture(autouse=True)
def _program_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check at the end of a program would be made at the end of the tests."""
    monkeypatch.setattr(job_writes.atexit, "register", lambda _: None)


@pytest.mark.parametrize("given", ["", "run_id", "commit_id"])
def test_a_second_attempt_writes_no_row_twice_and_announces_nothing_twice(place: Place, given: str) -> None:
    commits = []
    for attempt in (1, 2, 3):
        environ = process_environ(attempt=attempt)
        more = {"commit_id": attrgetter(given)(current_run(environ))} if given else {}
        commits.append(place.write(environ, **more))

    assert place.rows() == 3
    assert len({commit.id for commit in commits}) == 1
    assert all(commit.partitions == commits[0].partitions for commit in commits)
    assert place.announced.ids == [commits[0].id]


def test_each_write_of_a_program_and_each_rerun_is_another_commit(place: Place) -> None:
    for job in ("default.sc.w.1.1", "default.sc.w.1.1.rerun-1"):
        environ = process_environ(job)
        place.write(environ)
        place.write(environ)

    assert place.rows() == 12
    assert len(set(place.announced.ids)) == 4


def test_datasets_that_are_written_in_another_order_find_their_own_commits(place: Place) -> None:
    first, second = process_environ(), process_environ(attempt=2)
    for name, rows in (("a", 1), ("b", 2), ("a", 3)):
        place.write(first, rows, name=name)
    for name, rows in (("b", 2), ("a", 1), ("a", 3)):
        place.write(second, rows, name=name)

    assert (place.rows("a"), place.rows("b")) == (4, 2)


@pytest.mark.parametrize("moment", [Phase.STAGED, Phase.CHECKED])
@pytest.mark.parametrize("upto", ["fence", "commit"])
def test_an_attempt_that_was_replaced_commits_no_more(place: Place, moment: Phase, upto: str) -> None:
    """The first attempt sleeps after its last check, until its successor has fenced, or has committed."""
    successor = process_environ(attempt=2)

    def sleep(phase: Phase) -> None:
        if phase is moment and not place.log():
            if upto == "commit":
                place.write(successor, 5)
            else:
                place.write(successor, 5, days=0)  # no rows: it fences, and commits nothing

    files = place.files(process_environ(), sleep)
    with pytest.raises(AttemptFencedError, match=r"attempt 1 of job default\.sc\.w\.1\.1"):
        files.write(cast("Any", ArrowFrame({"day=1": 3})), partition_by=["day"])

    assert [each.author.attempt for each in place.log() if each.author] == ([2, 2] if upto == "commit" else [2])
    assert place.rows() == (5 if upto == "commit" else 0)
    root = Path(place.location.removeprefix("file://")) / "out"
    assert len(list(root.rglob("*.parquet"))) == (1 if upto == "commit" else 0)


def test_an_id_that_the_program_gives_is_fenced_too(place: Place) -> None:
    place.write(process_environ(attempt=2), commit_id="stream-q-1")

    with pytest.raises(AttemptFencedError):
        place.write(process_environ(), commit_id="stream-q-2")

    assert place.write(process_environ(attempt=3), commit_id="stream-q-1").id == "stream-q-1"
    assert place.rows() == 3


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"mode": "overwrite_partitions"}, "mode append, and now with overwrite_partitions"),
        ({"partition_by": ["day", "hour"]}, "partitioned by day, and now by day, hour"),
    ],
)
def test_a_write_that_is_not_that_of_the_first_attempt_fails(place: Place, changed: dict[str, Any], why: str) -> None:
    place.write(process_environ())

    with pytest.raises(ConflictError, match=why):
        place.write(process_environ(attempt=2), **changed)

    assert place.rows() == 3


def test_a_second_process_of_one_attempt_is_no_retry(place: Place) -> None:
    place.write(process_environ())

    with pytest.raises(ConflictError, match="this attempt has made it, in another process"):
        place.write(process_environ(), 5)

    assert place.rows() == 3
    assert place.write(process_environ(), 5, commit_id="by-the-second-script").partitions[0].rows == 5


def test_writes_without_an_order_are_not_matched(place: Place) -> None:
    """A write that failed may be repeated or left out by the next attempt; who knows."""
    environ = process_environ()
    with pytest.raises(ZeroDivisionError):
        place.files(environ, lambda _: 1 // 0).write(cast("Any", ArrowFrame({"day=1": 3})), partition_by=["day"])  # type: ignore[func-returns-value]
    place.write(environ)

    with pytest.raises(ConflictError, match="their order is not certain"):
        place.write(process_environ(attempt=2))

    assert place.rows() == 3


def test_writes_at_the_same_time_are_not_matched(place: Place) -> None:
    environ = process_environ()

    def write_beside(phase: Phase) -> None:
        if phase is Phase.STAGED:
            place.write(environ, 1)

    place.files(environ, write_beside).write(cast("Any", ArrowFrame({"day=1": 3})), partition_by=["day"])
    again = process_environ(attempt=2)
    for _ in range(2):
        with pytest.raises(ConflictError, match="at the same time"):
            place.write(again)

    assert place.rows() == 4


FEWER = """
import sys
from typing import Any
from streamsched import PartitionedFileSet
from tests.support.arrow_frame import ArrowFrame
out = PartitionedFileSet("out", sys.argv[1])
for _ in range(int(sys.argv[2])):
    out.write(ArrowFrame({"day=1": 3}), partition_by=["day"])
print("the program has ended well")
"""


@pytest.mark.parametrize(("writes", "code"), [(1, 1), (2, 0)])
def test_an_attempt_that_writes_less_than_is_committed_fails_at_its_end(place: Place, writes: int, code: int) -> None:
    first = process_environ()
    place.write(first)
    place.write(first)
    command = [sys.executable, "-c", FEWER, f"{place.location}/out", str(writes)]

    ended = subprocess.run(
        command, env={**process_environ(attempt=2), "PYTHONPATH": "."}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == code, ended.stderr
    assert ended.stdout == "the program has ended well\n"
    assert ("has committed write 2 of default.out, and attempt 2 made 1 writes" in ended.stderr) == bool(code)
    assert place.rows() == 6


def test_a_folder_of_an_older_release_goes_on_and_is_read_by_it(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.write({}, commit_id="old")
    folder = tmp_path / "out" / "_manifest"
    (only,) = folder.iterdir()
    old = 1_764_200_000_000_000
    (folder / f"{old:016d}-old.json").write_bytes(
        only.read_bytes().replace(b'"sequence": 1,', b'"sequence": %d,' % old)
    )
    only.unlink()

    place.write(process_environ(attempt=2))

    assert [each.sequence for each in place.log()] == [old, old + 1, old + 2]
    assert [each.mode for each in place.log()] == [Mode.APPEND] * 3
    assert place.rows() == 6


def test_commit_ids_are_short_enough_and_have_no_strange_characters() -> None:
    assert commit_of_job("default.sc.w.1.1", OUT, 2) == "default.sc.w.1.1.default.out-2"
    long = [commit_of_job("j" * 500, OUT, ordinal) for ordinal in (1, 2)]
    assert [len(each) for each in long] == [200, 200]
    assert len({*long, commit_of_job("a$b", OUT, 1), commit_of_job("a-b", OUT, 1)}) == 4
    assert "$" not in commit_of_job("a$b", OUT, 1)


def test_a_run_by_hand_has_its_own_id() -> None:
    assert current_run(run_environ("default.sc.w.manual-7", by_hand=True)).commit_id == "default.sc.w.manual-7.r1"
    job = RunContext("default.sc.w.1.1.r2", ProgramRef("default", "sc", "w"), job_id="default.sc.w.1.1", attempt=2)
    assert job.commit_id == "default.sc.w.1.1"


@pytest.mark.parametrize(
    ("said", "run"),
    [
        ({"job": "a.b.c.1.1", "attempt": 2}, "a.b.c.1.1.r2"),
        ({"job": "a.b.c.1.1", "attempt": "2"}, "a.b.c.1.1.r2"),
        ({}, ""),
        ({"job": "a"}, ""),
        ({"job": "", "attempt": 1}, ""),
        ({"job": 7, "attempt": 1}, ""),
        ({"job": "a\x00b", "attempt": 1}, ""),
        ({"job": "a\nb", "attempt": 1}, ""),
        ({"job": "a" * 100_000, "attempt": 1}, ""),
        ({"job": "a", "attempt": "9" * 100_000}, ""),
        ({"job": "a", "attempt": "\u0661"}, ""),
        ({"job": "a", "attempt": -1}, ""),
        ({"job": "a", "attempt": [1]}, ""),
    ],
)
def test_a_table_in_which_others_write_names_no_run_that_cannot_be(said: dict[str, object], run: str) -> None:
    assert run_named_by(said) == run

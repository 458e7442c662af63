"""Commits on a real disk, with writers that are really killed. Files are staged by Arrow: no Spark is needed here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched.domain.errors import Refusal, RefusedError, UnavailableError
from streamsched.domain.names import DatasetRef
from streamsched.ports.clock import SystemClock
from streamsched.process.files import create_atomically, sync_folder
from streamsched.spark import posix_store
from streamsched.spark.manifest import Columns, Manifest, Mode, Phase, visible_partitions
from streamsched.spark.posix_store import PosixStore
from streamsched.spark.writes.write import Write

DATASET = DatasetRef("default", "flights")
COLUMNS = Columns('{"type":"struct","fields":[]}', ("day",))
BEFORE_COMMIT = (Phase.STAGED, Phase.PREPARED, Phase.MOVING, Phase.MOVED)
AFTER_COMMIT = (Phase.COMMITTED, Phase.EMITTED)


def store(root: Path) -> PosixStore:
    return PosixStore(root, dataset=DATASET, clock=SystemClock(), watch=lambda _: None)


def stage(folder: Path, days: Sequence[int], rows: int = 3) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for day in days:
        (folder / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"n": list(range(rows))}), folder / f"day={day}" / "part-0.parquet")


def commit(root: Path, name: str, days: Sequence[int], mode: Mode = Mode.APPEND, rows: int = 3) -> Manifest | None:
    write = Write(name)
    with store(root).stage(write) as folder:
        stage(folder, days, rows)
        return store(root).publish(write, COLUMNS, mode)


def keys(root: Path) -> list[str]:
    return list(visible_partitions(store(root).manifests()))


def leftovers(root: Path) -> list[str]:
    staged = [path.name for path in (root / "_staging").iterdir()]
    listed = {
        file for manifest in store(root).manifests() for partition in manifest.partitions for file in partition.files
    }
    stray = [str(path.relative_to(root)) for path in root.glob("day=*/*.parquet")]
    return staged + [path for path in stray if path not in listed]


# Runs in another process, which kills itself when the commit reaches the phase it was given.
WRITER = f"""
import importlib.util, os, signal, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("commit_tests", {__file__!r})
tests = importlib.util.module_from_spec(spec); spec.loader.exec_module(tests)
from streamsched.spark.posix_store import PosixStore
from streamsched.spark.writes.write import Write
from streamsched.spark.manifest import Mode
def watch(phase):
    if phase == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
store = PosixStore(Path(sys.argv[1]), dataset=tests.DATASET, clock=tests.SystemClock(), watch=watch)
write = tests.Write("killed")
with store.stage(write) as folder:
    tests.stage(folder, [1, 2])
    store.publish(write, tests.COLUMNS, Mode.APPEND)
    store.mark_announced("killed")
"""


def killed_at(root: Path, phase: Phase) -> None:
    ended = subprocess.run([sys.executable, "-c", WRITER, str(root), phase], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def test_a_commit_is_visible_with_its_rows_and_bytes(tmp_path: Path) -> None:
    manifest = commit(tmp_path, "one", [1, 2])

    assert manifest is not None
    assert [(partition.key, partition.values, partition.rows) for partition in manifest.partitions] == [
        ("day=1", {"day": "1"}, 3),
        ("day=2", {"day": "2"}, 3),
    ]
    for partition in manifest.partitions:
        assert partition.bytes == sum((tmp_path / file).stat().st_size for file in partition.files)
    assert keys(tmp_path) == ["day=1", "day=2"]
    assert leftovers(tmp_path) == []


def test_nothing_staged_is_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path, "one", []) is None
    assert keys(tmp_path) == []
    assert leftovers(tmp_path) == []


def test_every_folder_above_the_data_is_durable_before_the_commit_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure must not take a folder whose files a manifest lists; any may be new, all the way up."""
    root = tmp_path / "lake" / "flights"
    synced: list[Path] = []

    def sync(folder: Path) -> None:
        synced.append(folder)
        sync_folder(folder)

    monkeypatch.setattr(posix_store, "sync_folder", sync)

    def create(path: Path, content: bytes) -> bool:
        synced.append(Path("manifest"))
        return create_atomically(path, content)

    monkeypatch.setattr(posix_store, "create_atomically", create)
    write = Write("one")
    with store(root).stage(write) as folder:
        for month in (1, 2):
            stage(folder / "year=2013" / f"month={month}", [1, 2])
        store(root).publish(write, COLUMNS, Mode.APPEND)

    before = synced[: len(synced) - synced[::-1].index(Path("manifest"))]
    leaves = {root / "year=2013" / f"month={month}" / f"day={day}" for month in (1, 2) for day in (1, 2)}
    above = {root / "year=2013" / f"month={month}" for month in (1, 2)}
    assert set(before) >= {*leaves, *above, root / "year=2013", root, tmp_path / "lake", tmp_path}


def test_a_writer_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def aborted() -> None:
        with store(tmp_path).stage(Write("one")) as folder:
            stage(folder, [1])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        aborted()

    assert keys(tmp_path) == []
    assert leftovers(tmp_path) == []
    assert store(tmp_path).announce_missing(lambda _: pytest.fail("nothing to say")) == []


@pytest.mark.parametrize("phase", BEFORE_COMMIT)
def test_a_writer_killed_before_the_commit_point_was_never_there(tmp_path: Path, phase: Phase) -> None:
    commit(tmp_path, "before", [1])
    store(tmp_path).mark_announced("before")
    killed_at(tmp_path, phase)
    assert leftovers(tmp_path) != []
    assert keys(tmp_path) == ["day=1"]

    assert store(tmp_path).recover() == ["killed"]

    assert keys(tmp_path) == ["day=1"]
    assert leftovers(tmp_path) == []
    assert store(tmp_path).announce_missing(lambda _: pytest.fail("nothing to say")) == []


@pytest.mark.parametrize("phase", AFTER_COMMIT)
def test_a_writer_killed_after_the_commit_point_is_announced_by_the_next_use(tmp_path: Path, phase: Phase) -> None:
    killed_at(tmp_path, phase)
    said: list[str] = []

    assert store(tmp_path).recover() == []
    store(tmp_path).announce_missing(lambda manifest: said.append(manifest.commit))
    store(tmp_path).announce_missing(lambda manifest: said.append(manifest.commit))

    assert said == ["killed"]
    assert keys(tmp_path) == ["day=1", "day=2"]
    assert leftovers(tmp_path) == []


def test_a_writer_killed_after_it_announced_says_no_more(tmp_path: Path) -> None:
    killed_at(tmp_path, Phase.ANNOUNCED)

    store(tmp_path).recover()

    assert store(tmp_path).announce_missing(lambda _: pytest.fail("said already")) == []
    assert leftovers(tmp_path) == []


def test_an_announcement_that_fails_is_left_to_the_next_use(tmp_path: Path) -> None:
    commit(tmp_path, "one", [1])

    def refuse(_: Manifest) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store(tmp_path).announce_missing(refuse)

    assert store(tmp_path).announce_missing(lambda _: None) == ["one"]


def test_a_commit_that_is_refused_for_good_keeps_no_later_one_from_being_announced(tmp_path: Path) -> None:
    for day, name in enumerate(("one", "two", "three", "four")):
        commit(tmp_path, name, [day])
    tried: list[str] = []

    def say(manifest: Manifest) -> None:
        tried.append(manifest.commit)
        if manifest.commit in ("two", "three"):
            raise RefusedError([Refusal(0, "$.data", f"not {manifest.commit}")], 0)

    for expected in (["one", "two", "three", "four"], ["two", "three"]):
        with pytest.raises(RefusedError, match="not two"):
            store(tmp_path).announce_missing(say)
        assert tried == expected
        tried.clear()


def test_while_the_far_end_is_away_no_commit_is_announced_before_an_older_one(tmp_path: Path) -> None:
    commit(tmp_path, "one", [1])
    commit(tmp_path, "two", [2])

    def say(manifest: Manifest) -> None:
        if manifest.commit == "one":
            raise UnavailableError("no server there")

    with pytest.raises(UnavailableError):
        store(tmp_path).announce_missing(say)

    assert store(tmp_path).announce_missing(lambda _: None) == ["one", "two"]


def test_a_live_writer_is_left_alone(tmp_path: Path) -> None:
    write = Write("living")
    with store(tmp_path).stage(write) as folder:
        stage(folder, [1])
        assert store(tmp_path).recover() == []
        manifest = store(tmp_path).publish(write, COLUMNS, Mode.APPEND)
        assert store(tmp_path).announce_missing(lambda _: pytest.fail("its writer says it")) == []

    assert manifest is not None
    assert store(tmp_path).announce_missing(lambda _: None) == ["living"]


def test_what_a_dead_task_wrote_after_the_rollback_goes_too(tmp_path: Path) -> None:
    commit(tmp_path, "one", [1])
    stage(tmp_path / "_staging" / "late" / "data", [5])

    assert store(tmp_path).recover() == ["late"]

    assert leftovers(tmp_path) == []


def test_appending_joins_and_overwriting_replaces(tmp_path: Path) -> None:
    commit(tmp_path, "one", [1, 2], rows=3)
    commit(tmp_path, "two", [2, 3], rows=4)
    rows = {key: seen.partition.rows for key, seen in visible_partitions(store(tmp_path).manifests()).items()}
    assert rows == {"day=1": 3, "day=2": 7, "day=3": 4}

    commit(tmp_path, "three", [2], Mode.OVERWRITE_PARTITIONS, rows=1)

    seen = visible_partitions(store(tmp_path).manifests())
    assert {key: part.partition.rows for key, part in seen.items()} == {"day=1": 3, "day=2": 1, "day=3": 4}
    (file,) = seen["day=2"].files
    assert re.fullmatch(r"day=2/three\.[0-9a-f]{8}-00000\.parquet", file)


def test_writers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    writers = [threading.Thread(target=commit, args=(tmp_path, f"w{n}", [1, n])) for n in range(2, 10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    seen = visible_partitions(store(tmp_path).manifests())
    assert seen["day=1"].partition.rows == 3 * 8
    assert len(seen) == 9
    assert leftovers(tmp_path) == []


def test_commits_follow_the_last_number(tmp_path: Path) -> None:
    first = commit(tmp_path, "one", [1])
    assert first is not None
    ahead = first.sequence + 10**12
    path = tmp_path / "_manifest" / f"{first.sequence:016d}.json"
    path.write_bytes(replace(first, sequence=ahead).encode())
    path.rename(path.with_name(f"{ahead:016d}.json"))

    second = commit(tmp_path, "two", [1])

    assert second is not None
    assert second.sequence == ahead + 1


def test_a_manifest_survives_its_trip_to_disk(tmp_path: Path) -> None:
    manifest = commit(tmp_path, "one", [1, 2], Mode.OVERWRITE_PARTITIONS)

    assert store(tmp_path).find("one") == manifest
    assert store(tmp_path).find("ne") is None

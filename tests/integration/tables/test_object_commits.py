"""Commits of file sets on S3 and in a folder, by writers that are killed: no half commit is ever read."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.errors import ConfigurationError, NotFoundError, UnavailableError
from streamsched.domain.names import DatasetRef
from streamsched.ports.clock import Clock, SystemClock
from streamsched.spark.manifest import Columns, Manifest, Mode, Phase, visible_partitions
from streamsched.spark.object_store import ObjectStore
from streamsched.spark.storage import FolderStorage
from streamsched.spark.writes.write import Write
from streamsched.testing.clock import SettableClock
from tests.integration.tables.object_storage import BUCKET, environ, s3_server

DATASET = DatasetRef("default", "flights")
COLUMNS = Columns('{"type":"struct","fields":[]}', ("day",))

Place = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    with s3_server() as options:
        yield options


@pytest.fixture(params=["s3", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new folder on each storage."""
    if request.param == "file":
        return f"file://{tmp_path}/flights", {}
    return f"s3://{BUCKET}/{uuid.uuid4().hex}", request.getfixturevalue("s3")


def store(place: Place, clock: Clock | None = None) -> ObjectStore:
    return ObjectStore(FolderStorage(*place), dataset=DATASET, clock=clock or SystemClock())


def stage(place: Place, folder: str, days: Sequence[int], rows: int = 3) -> None:
    """What Spark does: a file for each partition, one after another."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    for day in days:
        content = io.BytesIO()
        pq.write_table(pa.table({"n": list(range(rows))}), content)
        FolderStorage(*place).put(f"{folder}/day={day}/part-0.parquet", content.getvalue())


def commit(place: Place, name: str, days: Sequence[int], mode: Mode = Mode.APPEND, rows: int = 3) -> Manifest | None:
    using, write = store(place), Write(name)
    with using.stage(write) as folder:
        stage(place, folder, days, rows)
        return using.publish(write, COLUMNS, mode)


def seen(place: Place) -> dict[str, int | None]:
    """Rows of each visible partition. Reads every file that is visible."""
    import pyarrow.parquet as pq

    storage, found = FolderStorage(*place), visible_partitions(store(place).manifests())
    for each in found.values():
        rows = 0
        for path in each.files:
            with storage.open_file(path) as file:
                rows += pq.read_metadata(file).num_rows
        assert rows == each.partition.rows
    return {key: each.partition.rows for key, each in found.items()}


def test_a_commit_is_visible_at_once_and_in_order(place: Place) -> None:
    assert seen(place) == {}

    first = commit(place, "a", [1, 2])
    second = commit(place, "b", [2], rows=4)
    third = commit(place, "c", [1], Mode.OVERWRITE_PARTITIONS, rows=5)

    assert first is not None
    assert second is not None
    assert third is not None
    assert [each.sequence for each in (first, second, third)] == [1, 2, 3]
    assert seen(place) == {"day=1": 5, "day=2": 7}
    assert all(each.bytes for each in first.partitions)


def test_a_commit_id_is_visible_once(place: Place) -> None:
    first = commit(place, "a", [1])
    again = commit(place, "a", [1])

    assert again == first
    assert seen(place) == {"day=1": 3}
    assert len(FolderStorage(*place).files("_data")) == 1


def test_a_failed_write_leaves_nothing(place: Place) -> None:
    def fail() -> None:
        with store(place).stage(Write("a")) as folder:
            stage(place, folder, [1])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert FolderStorage(*place).files() == []
    assert commit(place, "empty", []) is None


def test_writers_at_the_same_time_all_commit(place: Place) -> None:
    threads = [threading.Thread(target=commit, args=(place, f"w{n}", [n % 2])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen(place) == {"day=0": 12, "day=1": 12}
    assert [each.sequence for each in store(place).manifests()] == list(range(1, 9))


def test_an_unannounced_commit_is_announced_by_the_next_use(place: Place) -> None:
    commit(place, "a", [1])
    commit(place, "b", [1])
    using, heard = store(place), []

    def emit(manifest: Manifest) -> None:
        heard.append(manifest.commit)
        if manifest.commit == "b" and len(heard) == 2:
            raise UnavailableError("away")

    with pytest.raises(UnavailableError):
        using.announce_missing(emit)
    assert store(place).announce_missing(emit) == ["b"]
    assert store(place).announce_missing(emit) == []
    assert heard == ["a", "b", "b"]


def test_vacuum_deletes_what_no_partition_has_had_for_long(place: Place) -> None:
    storage = FolderStorage(*place)
    commit(place, "a", [1, 2])
    commit(place, "b", [1], Mode.OVERWRITE_PARTITIONS, rows=5)
    stage(place, "_data/_commit=killed.1", [1])
    now = SettableClock(datetime.now(UTC))

    assert store(place, now).vacuum(timedelta(minutes=1)) == 0
    now.advance(timedelta(minutes=2))
    assert store(place, now).vacuum(timedelta(minutes=1)) == 2

    assert seen(place) == {"day=1": 5, "day=2": 3}
    assert len(storage.files("_data")) == 2


def test_a_storage_that_cannot_create_if_absent_needs_the_api() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot create a file only if it is absent.*set STREAMSCHED_URL"):
        store(("memory://flights", {}))
    with pytest.raises(ConfigurationError, match="Protocol not known"):
        store(("zz://flights", {}))


def test_a_bucket_that_is_none_has_a_clear_reason(s3: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError, match="s3://no-such-bucket"):
        commit(("s3://no-such-bucket/x", s3), "a", [1])


# Commits again and again, until it kills itself at a phase of one.
WRITER = """
import os, signal, sys
from streamsched.domain.names import DatasetRef
from streamsched.ports.clock import SystemClock
from streamsched.spark.manifest import Columns
from streamsched.spark.writes.write import Write
from streamsched.spark.writes.write import Write
from streamsched.spark.manifest import Mode
from streamsched.spark.object_store import ObjectStore
from streamsched.spark.storage import FolderStorage
from tests.integration.tables.test_object_commits import COLUMNS, DATASET, stage

place, name, phase, files = eval(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])

def watch(reached):
    if reached == phase:
        os.kill(os.getpid(), signal.SIGKILL)

store = ObjectStore(FolderStorage(*place), dataset=DATASET, clock=SystemClock(), watch=watch)
write = Write(name)
with store.stage(write) as folder:
    stage(place, folder, range(files))
    if phase == "staging":
        os.kill(os.getpid(), signal.SIGKILL)
    store.publish(write, COLUMNS, Mode.APPEND)
    store.mark_announced(name)
"""


def killed(place: Place, rounds: int) -> None:
    """Two writers at a time, one of which is killed; a reader reads all the while."""
    phases = ["staging", Phase.STAGED, Phase.COMMITTED, Phase.EMITTED, Phase.ANNOUNCED]
    stopped, failures = threading.Event(), []

    def read() -> None:
        while not stopped.is_set():
            try:
                rows = set(seen(place).values())
                assert len(rows) <= 1, f"half a commit: {rows}"
            except BaseException as exc:  # noqa: BLE001 - the thread's failure is the test's
                failures.append(exc)
                return

    reader = threading.Thread(target=read)
    reader.start()
    wanted = set()
    try:
        for number in range(rounds):
            phase = phases[number % len(phases)]
            writers = [
                subprocess.Popen(
                    [sys.executable, "-c", WRITER, repr(place), f"{name}{number}", at, "3"],
                    env={**environ(), "PYTHONPATH": str(Path(__file__).parents[3])},
                )
                for name, at in (("killed", phase), ("whole", "none"))
            ]
            assert [each.wait(timeout=120) for each in writers] == [-signal.SIGKILL, 0]
            wanted |= {f"whole{number}"} | ({f"killed{number}"} if phase not in ("staging", Phase.STAGED) else set())
    finally:
        stopped.set()
        reader.join()
    assert failures == []
    manifests = store(place).manifests()
    assert {each.commit for each in manifests} == wanted
    assert [each.sequence for each in manifests] == list(range(1, len(wanted) + 1))
    assert seen(place) == {f"day={day}": 3 * len(wanted) for day in range(3)}
    announced: list[str] = []
    store(place).announce_missing(lambda manifest: announced.append(manifest.commit))
    unannounced = {f"killed{n}" for n in range(rounds) if phases[n % 5] in (Phase.COMMITTED, Phase.EMITTED)}
    assert set(announced) == unannounced


def test_a_killed_writer_leaves_no_half_commit(place: Place) -> None:
    killed(place, 5)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_ten_killed_writers_leave_no_half_commit_on_s3(s3: dict[str, Any]) -> None:
    killed(
        (f"s3://{BUCKET}/{uuid.uuid4().hex}", s3), 10
    )  # `make trial KIND=writers-s3` kills as many as it is asked to

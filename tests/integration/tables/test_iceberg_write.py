"""Writes to Iceberg tables by Arrow: one commit for a job, whatever attempts it has, and a fence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import IdentityTransform, TruncateTransform

from streamsched.domain.errors import AttemptFencedError, ConfigurationError, ConflictError, InvalidError
from streamsched.spark.tables.iceberg import IcebergDataset
from streamsched.spark.tables.table_log import WritePhase
from streamsched.spark.tables.table_source import TableCommit
from streamsched.spark.writes import job_writes
from tests.integration.tables.conftest import FLIGHTS, Server, emitted
from tests.support.run_environ import process_environ


@pytest.fixture(autouse=True)
def _program_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_writes.atexit, "register", lambda _: None)


class Lake:
    """A catalog with one table, partitioned by `day`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
        self.catalog = load_catalog("lake", **self.options)
        self.catalog.create_namespace("db")
        table = self.catalog.create_table("db.flights", schema=rows(1).schema)
        with table.update_spec() as spec:
            spec.add_field("day", IdentityTransform(), "day")

    @property
    def table(self) -> Any:
        return self.catalog.load_table("db.flights")

    def dataset(self, environ: dict[str, str], watch: Callable[[WritePhase], None] = lambda _: None) -> IcebergDataset:
        return IcebergDataset(FLIGHTS, "db.flights", catalog="lake", options=self.options, environ=environ, watch=watch)

    def write(self, environ: dict[str, str], given: pa.Table, **more: Any) -> TableCommit | None:
        return self.dataset(environ).write(given, **more)

    def days(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.table.scan().to_arrow().to_pylist():
            found[str(row["day"])] = found.get(str(row["day"]), 0) + 1
        return found

    def data_files(self) -> int:
        return len(list((self.folder / "lake").rglob("*.parquet")))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def rows(*days: int, each: int = 3) -> pa.Table:
    named = [f"2026-01-0{day}" for day in days for _ in range(each)]
    return pa.table({"n": pa.array(range(len(named)), pa.int64()), "day": pa.array(named, pa.string())})


def test_a_second_attempt_finds_what_the_first_has_committed(lake: Lake) -> None:
    commits = [lake.write(process_environ(attempt=attempt), rows(1, 2)) for attempt in (1, 2, 3)]

    assert lake.days() == {"2026-01-01": 3, "2026-01-02": 3}
    assert commits[0] is not None
    assert [each and each.id for each in commits] == [commits[0].id] * 3
    (event,) = emitted(lake.dataset({})._table)
    assert event.id == commits[0].id
    assert [(part.key, part.rows) for part in commits[0].partitions] == [("day=2026-01-01", 3), ("day=2026-01-02", 3)]


def test_overwriting_replaces_the_partitions_of_the_rows(lake: Lake) -> None:
    lake.write({}, rows(1, 2, 3))
    lake.write({}, rows(2, 4, each=1), mode="overwrite_partitions")

    assert lake.days() == {"2026-01-01": 3, "2026-01-02": 1, "2026-01-03": 3, "2026-01-04": 1}
    assert len(emitted(lake.dataset({})._table)) == 2


def test_no_rows_are_no_commit(lake: Lake) -> None:
    assert lake.write({}, rows()) is None
    assert lake.table.current_snapshot() is None


@pytest.mark.parametrize("moment", [WritePhase.STAGED, WritePhase.CHECKED])
@pytest.mark.parametrize("upto", ["fence", "commit"])
@pytest.mark.parametrize("existing", [True, False])
def test_an_attempt_that_was_replaced_commits_no_more(
    lake: Lake, moment: WritePhase, upto: str, existing: bool
) -> None:
    """The first attempt sleeps after its last check, until its successor has fenced, or has committed."""
    if existing:
        lake.write({}, rows(9))
    slept: list[bool] = []

    def sleep(phase: WritePhase) -> None:
        if phase is moment and not slept:
            slept.append(True)
            lake.write(process_environ(attempt=2), rows(1, each=5) if upto == "commit" else rows())

    with pytest.raises(AttemptFencedError, match=r"attempt 1 of job default\.sc\.w\.1\.1"):
        lake.dataset(process_environ(), sleep).write(rows(1))

    wanted = {"2026-01-09": 3} if existing else {}
    assert lake.days() == wanted | ({"2026-01-01": 5} if upto == "commit" else {})
    assert lake.data_files() == len(lake.days())


def test_other_writers_between_check_and_commit_are_no_fence(lake: Lake) -> None:
    lake.write({}, rows(9))
    others: list[int] = []

    def beside(phase: WritePhase) -> None:
        if phase is WritePhase.CHECKED and len(others) < 3:
            others.append(1)
            lake.table.append(rows(2, each=1))

    lake.dataset(process_environ(), beside).write(rows(2, each=5), mode="overwrite_partitions")

    assert lake.days() == {"2026-01-09": 3, "2026-01-02": 5}


def test_a_write_during_which_the_history_was_removed_fails(lake: Lake) -> None:
    lake.write({}, rows(9))
    began = lake.table.current_snapshot().snapshot_id
    slept: list[bool] = []

    def sleep(phase: WritePhase) -> None:
        if phase is WritePhase.CHECKED and not slept:
            slept.append(True)
            lake.write(process_environ(attempt=2), rows(1))
            lake.table.maintenance.expire_snapshots().by_id(began).commit()

    with pytest.raises(ConflictError):
        lake.dataset(process_environ(), sleep).write(rows(1))
    assert lake.days() == {"2026-01-09": 3, "2026-01-01": 3}


def test_what_is_not_the_write_of_the_first_attempt_fails(lake: Lake) -> None:
    lake.write(process_environ(), rows(1))

    with pytest.raises(ConflictError, match="with mode append, and now with overwrite_partitions"):
        lake.write(process_environ(attempt=2), rows(1), mode="overwrite_partitions")
    with pytest.raises(ConflictError, match="this attempt has made it"):
        lake.write(process_environ(), rows(1))
    assert lake.days() == {"2026-01-01": 3}


def test_what_is_committed_and_not_written_again_is_known_at_the_end(lake: Lake) -> None:
    first, second = process_environ(), process_environ(attempt=2)
    lake.write(first, rows(1))
    lake.write(first, rows(2))
    lake.write(second, rows(1))

    writes = job_writes.current_writes(second)
    assert writes is not None
    assert "has committed write 2 of default.flights, and attempt 2 made 1 writes" in writes.unmatched_writes()[0]


def test_rows_that_do_not_fit_and_tables_that_cannot_be_written_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidError, match="do not fit to the table"):
        lake.write({}, pa.table({"n": ["x"], "day": ["y"]}))
    lake.write({}, rows(1))
    static = IcebergDataset(FLIGHTS, lake.table.metadata_location, environ={})
    with pytest.raises(ConfigurationError, match="without a catalog"):
        static.write(rows(1))
    with lake.table.update_spec() as spec:
        spec.add_field("n", TruncateTransform(10), "n_truncated")
    with pytest.raises(ConfigurationError, match="partitioned by transforms"):
        lake.write({}, rows(2), mode="overwrite_partitions")
    assert lake.days() == {"2026-01-01": 3}


@pytest.mark.postgres
async def test_a_commit_is_announced_once_also_the_first_one_of_a_table(server: Server, lake: Lake) -> None:
    """Attempt 1 has committed and not announced; attempt 2 fences, so the newest snapshot is no commit."""
    import asyncio

    commit = await asyncio.to_thread(lake.write, process_environ(), rows(1))
    for attempt in (2, 3):
        environ = process_environ(attempt=attempt) | {"STREAMSCHED_EMIT_URL": server.url}
        await asyncio.to_thread(lake.write, environ, rows(1))

    assert commit is not None
    assert [each.id for each in await server.events()] == [commit.id]

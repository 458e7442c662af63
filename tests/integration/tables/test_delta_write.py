"""Writes to Delta Lake tables by Arrow: one commit for a job, whatever attempts it has, and a fence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from streamsched.domain.errors import AttemptFencedError, ConfigurationError, ConflictError, InvalidError
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.table_log import WritePhase
from streamsched.spark.tables.table_source import TableCommit
from streamsched.spark.writes import job_writes
from tests.integration.tables.conftest import FLIGHTS, Server, emitted
from tests.support.run_environ import process_environ


@pytest.fixture(autouse=True)
def _program_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_writes.atexit, "register", lambda _: None)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "lake" / "flights")


def rows(*days: int, each: int = 3) -> pa.Table:
    named = [date(2026, 1, day) for day in days for _ in range(each)]
    return pa.table({"n": pa.array(range(len(named)), pa.int64()), "day": pa.array(named, pa.date32())})


def dataset(place: str, environ: dict[str, str], watch: Callable[[WritePhase], None] = lambda _: None) -> DeltaDataset:
    return DeltaDataset(FLIGHTS, place, environ=environ, watch=watch)


def write(place: str, environ: dict[str, str], given: pa.Table, **more: Any) -> TableCommit | None:
    return dataset(place, environ).write(given, **{"partition_by": ["day"], **more})


def days(place: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in pa.table(DeltaTable(place).to_pyarrow_table()).to_pylist():
        found[str(row["day"])] = found.get(str(row["day"]), 0) + 1
    return found


def test_a_second_attempt_finds_what_the_first_has_committed(place: str) -> None:
    commits = [write(place, process_environ(attempt=attempt), rows(1, 2)) for attempt in (1, 2, 3)]

    assert days(place) == {"2026-01-01": 3, "2026-01-02": 3}
    assert commits[0] is not None
    assert [each and each.id for each in commits] == [commits[0].id] * 3
    (event,) = emitted(dataset(place, {})._table)
    assert event.id == commits[0].id
    assert [(part.key, part.rows) for part in commits[0].partitions] == [("day=2026-01-01", 3), ("day=2026-01-02", 3)]


def test_a_table_that_an_attempt_created_and_did_not_write_is_written(place: str) -> None:
    environ = process_environ(attempt=2)
    write(place, environ, rows(1))
    write(place, environ, rows(1))

    assert days(place) == {"2026-01-01": 6}


def test_overwriting_replaces_the_partitions_of_the_rows(place: str) -> None:
    write(place, {}, rows(1, 2, 3))
    write(place, {}, rows(2, 4, each=1), mode="overwrite_partitions")

    assert days(place) == {"2026-01-01": 3, "2026-01-02": 1, "2026-01-03": 3, "2026-01-04": 1}


def test_strange_partition_values_come_back(place: str) -> None:
    values = ["a b/c", "50%", "ü=1", "", None]
    given = pa.table({"n": pa.array(range(5)), "day": pa.array(values, pa.string())})

    write(place, {}, given)
    write(place, {}, given, mode="overwrite_partitions")

    found = sorted(DeltaTable(place).to_pyarrow_table().to_pylist(), key=lambda row: row["n"])
    assert [row["day"] or None for row in found] == ["a b/c", "50%", "ü=1", None, None]


def test_no_rows_are_no_commit(place: str) -> None:
    assert write(place, {}, rows()) is None
    assert DeltaTable(place).version() == 0


@pytest.mark.parametrize("moment", [WritePhase.STAGED, WritePhase.CHECKED])
@pytest.mark.parametrize("upto", ["fence", "commit"])
@pytest.mark.parametrize("existing", [True, False])
def test_an_attempt_that_was_replaced_commits_no_more(
    place: str, moment: WritePhase, upto: str, existing: bool
) -> None:
    """The first attempt sleeps after its last check, until its successor has fenced, or has committed."""
    if existing:
        write(place, {}, rows(9))
    slept: list[bool] = []

    def sleep(phase: WritePhase) -> None:
        if phase is moment and not slept:
            slept.append(True)
            write(place, process_environ(attempt=2), rows(1, each=5) if upto == "commit" else rows())

    with pytest.raises(AttemptFencedError, match=r"attempt 1 of job default\.sc\.w\.1\.1"):
        dataset(place, process_environ(), sleep).write(rows(1), partition_by=["day"])

    wanted = {"2026-01-09": 3} if existing else {}
    assert days(place) == wanted | ({"2026-01-01": 5} if upto == "commit" else {})
    assert len(list(Path(place).rglob("*.parquet"))) == len(days(place))


def test_other_writers_between_check_and_commit_are_no_fence(place: str) -> None:
    write(place, {}, rows(9))
    others: list[int] = []

    def beside(phase: WritePhase) -> None:
        if phase is WritePhase.CHECKED and len(others) < 3:
            others.append(1)
            write_deltalake(place, rows(2, each=1), mode="append")

    dataset(place, process_environ(), beside).write(rows(2, each=5), mode="overwrite_partitions")

    assert days(place) == {"2026-01-09": 3, "2026-01-02": 5}


def test_what_is_not_the_write_of_the_first_attempt_fails(place: str) -> None:
    write(place, process_environ(), rows(1))

    with pytest.raises(ConflictError, match="with mode append, and now with overwrite_partitions"):
        write(place, process_environ(attempt=2), rows(1), mode="overwrite_partitions")
    with pytest.raises(ConflictError, match="this attempt has made it"):
        write(place, process_environ(), rows(1))
    assert days(place) == {"2026-01-01": 3}


def test_what_is_committed_and_not_written_again_is_known_at_the_end(place: str) -> None:
    first, second = process_environ(), process_environ(attempt=2)
    write(place, first, rows(1))
    write(place, first, rows(2))
    write(place, second, rows(1))

    writes = job_writes.current_writes(second)
    assert writes is not None
    assert "has committed write 2 of default.flights, and attempt 2 made 1 writes" in writes.unmatched_writes()[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pa.table({"m": [1], "day": [date(2026, 1, 1)]}), "column m is not in"),
        (pa.table({"n": ["x"], "day": [date(2026, 1, 1)]}), "column n is string, and in .* long"),
        (pa.table({"n": [1]}), "column day of .* is missing"),
    ],
)
def test_rows_of_other_columns_are_refused(place: str, given: pa.Table, why: str) -> None:
    write(place, {}, rows(1))

    with pytest.raises(InvalidError, match=why):
        write(place, {}, given, partition_by=[])
    with pytest.raises(InvalidError, match="is partitioned by day"):
        write(place, {}, rows(1), partition_by=["n"])
    assert days(place) == {"2026-01-01": 3}


def test_a_table_with_constraints_is_left_to_those_who_keep_them(place: str) -> None:
    write(place, {}, rows(1))
    DeltaTable(place).alter.add_constraint({"few": "n < 100"})

    with pytest.raises(ConfigurationError, match=r"delta\.constraints\.few"):
        write(place, {}, rows(1))


@pytest.mark.postgres
async def test_a_commit_is_announced_once_also_the_first_one_of_a_table(server: Server, place: str) -> None:
    """Attempt 1 has committed and not announced; attempt 2 fences, so the newest version is no commit."""
    import asyncio

    commit = await asyncio.to_thread(write, place, process_environ(), rows(1))
    for attempt in (2, 3):
        environ = process_environ(attempt=attempt) | {"STREAMSCHED_EMIT_URL": server.url}
        await asyncio.to_thread(write, place, environ, rows(1))

    assert commit is not None
    assert [each.id for each in await server.events()] == [commit.id]

"""Delta tables, written by delta-rs: commits, events, and what a run reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from streamsched.domain.errors import ConflictError, DecodeError, NotFoundError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.names import ProgramRef
from streamsched.spark.context import RunContext
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.delta_source import DeltaSource
from tests.integration.tables.conftest import FLIGHTS, Server, emitted, run_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Write = Callable[..., None]


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "lake" / "flights")


@pytest.fixture
def write(table: str) -> Write:
    """Appends rows to days of the table, in one commit."""
    from deltalake import write_deltalake

    def append(*days: int, rows: int = 3, mode: Literal["append", "overwrite"] = "append") -> None:
        write_deltalake(table, rows_of(*days, rows=rows), partition_by=["day", "name"], mode=mode)

    return append


def rows_of(*days: int, rows: int = 3) -> pa.Table:
    import pyarrow as pa

    landed = [(n, date(2026, 1, day), "a/b =%ü") for day in days for n in range(rows)]
    columns = [pa.array(column) for column in zip(*landed, strict=True)]
    return pa.table(columns, names=["n", "day", "name"])


def partitions(event: Event) -> list[tuple[str, int | None]]:
    assert isinstance(event.fact, PartitionsAdded)
    return sorted((each.key, each.rows) for each in event.fact.partitions)


def key(day: int) -> str:
    return f"day=2026-01-{day:02}/name=a%2Fb %3D%25ü"


def test_each_commit_is_one_event_with_its_partitions(table: str, write: Write) -> None:
    write(1, 2)
    write(2, rows=5)

    first, second = emitted(DeltaSource(table))

    assert partitions(first) == [(key(1), 3), (key(2), 3)]
    assert partitions(second) == [(key(2), 5)]
    assert isinstance(second.fact, PartitionsAdded)
    assert second.fact.partitions[0].values == {"day": "2026-01-02", "name": "a/b =%ü"}
    assert second.fact.partitions[0].bytes == sum(
        file.stat().st_size for file in Path(table).rglob("*.parquet") if "2026-01-02" in str(file)
    ) - (first.fact.partitions[1].bytes or 0)  # type: ignore[union-attr]
    assert (first.source, first.fact.dataset) == ("/datasets/default.flights", FLIGHTS)  # type: ignore[union-attr]
    assert first.time < second.time
    assert [each.id for each in emitted(DeltaSource(table))] == [first.id, second.id]


def test_what_adds_no_data_is_no_event(table: str, write: Write) -> None:
    from deltalake import DeltaTable

    write(1)
    write(1)
    source = DeltaSource(table)
    before = source.head()
    DeltaTable(table).optimize.compact()
    DeltaTable(table).delete("day = '2026-01-01'")

    steps = list(source.steps_after(before))

    assert [step.commit for step in steps] == [None, None]
    last = steps[-1].position
    assert last is not None
    assert emitted(source, last) == []
    assert source.head() == last


def test_a_table_without_partition_columns_has_a_partition_for_each_version(table: str) -> None:
    from deltalake import write_deltalake

    write_deltalake(table, rows_of(1))
    write_deltalake(table, rows_of(1, 2), mode="append")

    assert [partitions(each) for each in emitted(DeltaSource(table))] == [[("version=0", 3)], [("version=1", 6)]]


def test_versions_that_were_cleaned_up_are_one_event_of_the_files_since(table: str, write: Write) -> None:
    from deltalake import DeltaTable

    source = DeltaSource(table)
    write(1)
    seen = source.head()
    write(2)
    write(3)
    DeltaTable(table).create_checkpoint()
    write(4)
    for version in range(3):
        (Path(table) / "_delta_log" / f"{version:020d}.json").unlink()

    gap, last = emitted(source, seen)

    assert partitions(gap) == [(key(2), 3), (key(3), 3)]
    assert partitions(last) == [(key(4), 3)]
    assert [partitions(each) for each in emitted(source)] == [[(key(day), 3) for day in (1, 2, 3)], [(key(4), 3)]]
    assert emitted(source, seen)[0].id == gap.id
    with pytest.raises(NotFoundError, match="cleaned up"):
        DeltaDataset("flights", table).to_arrow(run_of([gap]))


def test_a_table_made_anew_begins_with_its_first_version(table: str, write: Write, tmp_path: Path) -> None:
    write(1)
    write(2)
    source = DeltaSource(table)
    old = emitted(source)
    seen = source.head()
    Path(table).rename(tmp_path / "old")
    write(3)

    new = emitted(source, seen)

    assert [partitions(each) for each in new] == [[(key(3), 3)]]
    assert not {each.id for each in new} & {each.id for each in old}
    with pytest.raises(NotFoundError, match="made anew"):
        DeltaDataset("flights", table).to_arrow(run_of(old[:1]))
    with pytest.raises(ConflictError, match="another table"):
        emitted(DeltaSource(str(tmp_path / "old")), source.head())


def test_a_run_reads_exactly_the_commits_that_started_it(table: str, write: Write) -> None:
    from deltalake import DeltaTable

    write(1, 2)
    write(2, rows=5)
    write(2, rows=7)
    DeltaTable(table).optimize.compact()
    events = emitted(DeltaSource(table))
    flights = DeltaDataset("flights", table, environ={})

    found = flights.to_arrow(run_of(events[:2])).to_pylist()

    assert sorted((row["day"].day, row["n"]) for row in found) == sorted(
        [(1, n) for n in range(3)] + [(2, n) for n in range(3)] + [(2, n) for n in range(5)]
    )
    assert {row["name"] for row in found} == {"a/b =%ü"}
    assert flights.to_arrow(run_of(events)).num_rows == 18
    assert flights.to_arrow(run_of([])).num_rows == 0
    with pytest.raises(ConflictError, match="started by hand"):
        flights.to_arrow(RunContext("m.r1", ProgramRef("default", "air", "join")))


def test_only_partitions_that_counted_are_read(table: str, write: Write) -> None:
    from dataclasses import replace

    write(1, 2)
    (event,) = emitted(DeltaSource(table))
    fact = event.fact
    assert isinstance(fact, PartitionsAdded)
    counted = tuple(each for each in fact.partitions if each.key == key(2))

    found = DeltaDataset("flights", table).to_arrow(run_of([replace(event, fact=replace(fact, partitions=counted))]))

    assert {row["day"] for row in found.to_pylist()} == {date(2026, 1, 2)}


@pytest.mark.nightly
@pytest.mark.spark
def test_spark_reads_the_new_files_without_jars_of_delta(table: str, write: Write, spark: SparkSession) -> None:
    write(1, 2)
    write(2, rows=5)

    events = emitted(DeltaSource(table))
    found = DeltaDataset("flights", table).read_new(run_of(events[1:]), spark)

    assert DeltaDataset("flights", table).read_new(run_of(events), spark).count() == 11
    assert sorted(map(tuple, found.collect())) == [(n, date(2026, 1, 2), "a/b =%ü") for n in range(5)]


def test_partition_values_have_their_types_again(table: str) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    at = pa.array([None, 1_767_225_600_123_456], pa.timestamp("us", "UTC"))
    given = pa.table(
        {"n": [1, 2], "at": at, "yes": [True, None], "text": ["", "x"], "much": [2**60, -1], "none": [None, 1.5]}
    )
    write_deltalake(table, given, partition_by=["at", "yes", "text", "much", "none"])

    found = DeltaDataset("flights", table).to_arrow(run_of(emitted(DeltaSource(table))))

    assert found.sort_by("n").select(["n", "at", "yes", "much", "none"]).to_pylist() == [
        {name: value for name, value in row.items() if name != "text"} for row in given.to_pylist()
    ]


def test_what_is_no_table_has_a_clear_reason(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", tmp_path / "nowhere"):
        with pytest.raises(NotFoundError, match=r"Delta table '.*' was not found; there is no _delta_log"):
            DeltaSource(str(place)).head()


def test_a_damaged_commit_is_named(table: str, write: Write) -> None:
    write(1)
    write(2)
    (Path(table) / "_delta_log" / f"{1:020d}.json").write_text('{"add": {"path": 7}}')

    with pytest.raises(DecodeError, match="is damaged: Kernel error: Json error: whilst decoding field 'add'"):
        emitted(DeltaSource(table))


@pytest.mark.postgres
async def test_a_job_announces_what_it_wrote_and_a_watcher_goes_on(server: Server, table: str, write: Write) -> None:
    import asyncio

    flights = DeltaDataset("flights", table, environ={"STREAMSCHED_URL": server.url})
    write(1)
    write(2)

    announced = [await asyncio.to_thread(flights.announce), await asyncio.to_thread(flights.announce)]
    write(3)
    write(4)
    seen = await server.look(DeltaSource(table))

    assert [[each.partitions[0].key for each in commits] for commits in announced] == [[key(2)], []]
    assert [each.partitions[0].key for each in seen.commits] == [key(3), key(4)]
    assert [partitions(each)[0][0] for each in await server.events()] == [key(2), key(3), key(4)]


def test_a_job_whose_server_is_away_has_written_nevertheless(
    table: str, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write(1)

    assert DeltaDataset("flights", table, environ={"STREAMSCHED_URL": "http://127.0.0.1:9"}).announce() == ()
    assert DeltaDataset("flights", table, environ={"STREAMSCHED_DATA_DIR": "/nowhere"}).announce() == ()
    assert [record.message.split(" why=")[0] for record in caplog.records] == [
        f"table.unannounced dataset=default.flights table={table}"
    ] * 2

"""Iceberg tables, written by pyiceberg: snapshots, events, and what a run reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamsched.domain.errors import ConfigurationError, ConflictError, NotFoundError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.spark.tables.iceberg import IcebergDataset
from streamsched.spark.tables.iceberg_source import IcebergSource
from tests.integration.tables.conftest import Server, emitted, run_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Write = Callable[..., None]


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    """Of a catalog in a file."""
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}


@pytest.fixture
def table(options: dict[str, str]) -> Any:
    """A table with the partition fields day and name."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, LongType, NestedField, StringType

    catalog = load_catalog("lake", **options)
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "n", LongType()), NestedField(2, "day", DateType()), NestedField(3, "name", StringType())
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "day"), PartitionField(3, 1001, IdentityTransform(), "name")
    )
    return catalog.create_table("db.flights", schema=schema, partition_spec=spec)


@pytest.fixture
def write(table: Any) -> Write:
    """Appends rows to days of the table, in one commit."""

    def append(*days: int, rows: int = 3, name: str | None = "a/b =%ü") -> None:
        table.append(rows_of(*days, rows=rows, name=name))

    return append


def rows_of(*days: int, rows: int = 3, name: str | None) -> pa.Table:
    import pyarrow as pa

    landed = [(n, date(2026, 1, day), name) for day in days for n in range(rows)]
    schema = pa.schema([("n", pa.int64()), ("day", pa.date32()), ("name", pa.string())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in landed], schema)


def partitions(event: Event) -> list[tuple[str, int | None]]:
    assert isinstance(event.fact, PartitionsAdded)
    return sorted((each.key, each.rows) for each in event.fact.partitions)


def key(day: int) -> str:
    return f"day=2026-01-{day:02}/name=a%2Fb %3D%25ü"


def test_each_snapshot_is_one_event_with_its_partitions(table: Any, write: Write, options: dict[str, str]) -> None:
    source = IcebergSource("db.flights", catalog="lake", options=options)
    begin = source.head()
    write(1, 2)
    write(2, rows=5, name=None)

    first, second = emitted(source, begin)

    assert partitions(first) == [(key(1), 3), (key(2), 3)]
    assert partitions(second) == [("day=2026-01-02/name=__HIVE_DEFAULT_PARTITION__", 5)]
    assert isinstance(first.fact, PartitionsAdded)
    assert first.fact.partitions[0].values["name"] == "a/b =%ü"
    assert all(each.bytes for each in first.fact.partitions)
    assert [each.id for each in emitted(source)] == [first.id, second.id]
    assert emitted(source, source.head()) == []


def test_what_adds_no_data_is_no_event(table: Any, write: Write) -> None:
    write(1)
    source = IcebergSource(table)
    before = source.head()
    table.delete("day = '2026-01-01'")
    with table.update_schema() as change:
        from pyiceberg.types import LongType

        change.add_column("more", LongType())

    (step,) = source.steps_after(before)

    assert step.commit is None
    assert step.position is not None
    assert list(source.steps_after(step.position)) == []


def test_snapshots_that_expired_are_one_event_of_the_files_since(table: Any, write: Write) -> None:
    source = IcebergSource(table)
    write(1)
    seen = source.head()
    write(2)
    write(3)
    write(4)
    names = [each.snapshot_id for each in table.snapshots()]
    table.maintenance.expire_snapshots().by_ids(names[:-1]).commit()

    gap, last = emitted(source, seen)

    assert (partitions(gap), partitions(last)) == ([(key(2), 3), (key(3), 3)], [(key(4), 3)])
    assert partitions(emitted(source)[0]) == [(key(day), 3) for day in (1, 2, 3)]
    assert emitted(source, seen)[0].id == gap.id
    with pytest.raises(NotFoundError, match="expired"):
        IcebergDataset("flights", table).to_arrow(run_of([gap]))


def test_a_table_that_was_rolled_back_repeats_nothing(table: Any, write: Write) -> None:
    write(1)
    kept = table.current_snapshot().snapshot_id
    write(2)
    source = IcebergSource(table)
    seen = source.head()
    table.manage_snapshots().set_current_snapshot(snapshot_id=kept).commit()

    (step,) = source.steps_after(seen)
    write(3)

    assert step.commit is None
    assert step.position is not None
    assert [partitions(each) for each in emitted(source, seen)] == [[(key(3), 3)]]
    assert [partitions(each) for each in emitted(source, step.position)] == [[(key(3), 3)]]


def test_a_run_reads_exactly_the_snapshots_that_started_it(table: Any, write: Write) -> None:
    write(1, 2)
    write(2, rows=5)
    write(2, rows=7)
    events = emitted(IcebergSource(table))
    flights = IcebergDataset("flights", table, environ={})
    with table.update_schema() as change:
        change.rename_column("n", "number")

    found = flights.to_arrow(run_of(events[:2])).to_pylist()

    assert sorted((row["day"].day, row["number"]) for row in found) == sorted(
        [(1, n) for n in range(3)] + [(2, n) for n in range(3)] + [(2, n) for n in range(5)]
    )
    assert flights.to_arrow(run_of(events)).num_rows == 18
    assert flights.to_arrow(run_of([])).num_rows == 0


@pytest.mark.spark
def test_spark_gets_the_new_rows(table: Any, write: Write, spark: SparkSession) -> None:
    write(1)
    write(2, rows=5)

    found = IcebergDataset("flights", table).read_new(run_of(emitted(IcebergSource(table))[1:]), spark)

    assert sorted(map(tuple, found.collect())) == [(n, date(2026, 1, 2), "a/b =%ü") for n in range(5)]


def test_what_is_no_table_has_a_clear_reason(table: Any, options: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"Iceberg table 'lake:db.none' was not found"):
        IcebergSource("db.none", catalog="lake", options=options).head()
    with pytest.raises(NotFoundError, match=r"give its folder with metadata/version-hint.text"):
        IcebergSource(str(tmp_path)).head()
    with pytest.raises(ConfigurationError, match="PYICEBERG_CATALOG__NONE__URI"):
        IcebergSource("db.flights", catalog="none").head()


def test_another_table_under_the_same_bookmark_is_refused(table: Any, options: dict[str, str]) -> None:
    from pyiceberg.catalog import load_catalog

    other = load_catalog("lake", **options).create_table("db.other", schema=table.schema())

    with pytest.raises(ConflictError, match="another table"):
        emitted(IcebergSource(other), IcebergSource(table).head())


@pytest.mark.postgres
async def test_a_watcher_sees_each_snapshot_once(
    server: Server, table: Any, write: Write, options: dict[str, str]
) -> None:
    source = IcebergSource("db.flights", catalog="lake", options=options)
    assert (await server.look(source)).commits == ()
    write(1)
    write(2)

    seen = [await server.look(source), await server.look(source)]

    assert [len(each.commits) for each in seen] == [2, 0]
    assert [partitions(each) for each in await server.events()] == [[(key(1), 3)], [(key(2), 3)]]

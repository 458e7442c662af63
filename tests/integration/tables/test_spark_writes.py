"""Writes of real Spark frames to Delta and Iceberg tables, without jars of the formats: once for a job, and fenced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import IdentityTransform

from streamsched.domain.errors import AttemptFencedError
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.iceberg import IcebergDataset
from streamsched.spark.tables.table_log import WritePhase
from streamsched.spark.writes import job_writes
from tests.integration.tables.conftest import FLIGHTS, emitted
from tests.support.run_environ import process_environ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("city", pa.string()),
    ]
)


@pytest.fixture(autouse=True)
def _program_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_writes.atexit, "register", lambda _: None)


class Table:
    """A table of one format, partitioned by `day` and `city`."""

    def __init__(self, form: str, folder: Path) -> None:
        self.form, self.folder = form, folder / "lake"
        self._options = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/lake"}
        if form == "iceberg":
            catalog = load_catalog("lake", **self._options)
            catalog.create_namespace("db")
            with catalog.create_table("db.flights", schema=SCHEMA).update_spec() as spec:
                spec.add_field("day", IdentityTransform(), "day")
                spec.add_field("city", IdentityTransform(), "city")

    def dataset(self, environ: dict[str, str], watch: Callable[[WritePhase], None] = lambda _: None) -> Any:
        if self.form == "delta":
            return DeltaDataset(FLIGHTS, str(self.folder / "flights"), environ=environ, watch=watch)
        return IcebergDataset(
            FLIGHTS, "db.flights", catalog="lake", options=self._options, environ=environ, watch=watch
        )

    def write(self, environ: dict[str, str], rows: DataFrame, *, mode: str = "append") -> Any:
        more = {"partition_by": ["day", "city"]} if self.form == "delta" else {}
        return self.dataset(environ).write(rows, mode=mode, **more)

    def rows(self) -> list[dict[str, Any]]:
        if self.form == "delta":
            found = DeltaTable(str(self.folder / "flights")).to_pyarrow_table()
        else:
            found = load_catalog("lake", **self._options).load_table("db.flights").scan().to_arrow()
        return sorted(found.select(SCHEMA.names).to_pylist(), key=lambda row: (str(row["day"]), row["n"]))


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(request.param, tmp_path)


def frame(spark: SparkSession, *days: int, many: int = 2, city: str | None = "a b/c%") -> DataFrame:
    at = datetime(2026, 1, 1, 12, 30, 15, 123456, UTC)
    rows = [(n, Decimal("1.25"), at, date(2026, 1, day), city) for day in days for n in range(many)]
    return spark.createDataFrame(rows, "n int, price decimal(10,2), at timestamp, day date, city string")


def test_a_second_attempt_finds_what_spark_has_committed(spark: SparkSession, table: Table) -> None:
    commits = [table.write(process_environ(attempt=attempt), frame(spark, 1, 2)) for attempt in (1, 2)]

    assert commits[0] is not None
    assert commits[1] is not None
    assert commits[0].id == commits[1].id
    rows = table.rows()
    assert [(row["n"], row["day"].day, row["city"], row["price"]) for row in rows] == [
        (n, day, "a b/c%", Decimal("1.25")) for day in (1, 2) for n in (0, 1)
    ]
    assert {row["at"].microsecond for row in rows} == {123456}
    (event,) = emitted(table.dataset({})._table)
    assert event.id == commits[0].id
    assert sum(part.rows for part in commits[0].partitions) == 4


def test_spark_overwrites_exactly_the_partitions_of_the_frame(spark: SparkSession, table: Table) -> None:
    table.write({}, frame(spark, 1, 2, 3))
    table.write({}, frame(spark, 2, many=1))
    table.write({}, frame(spark, 2, many=1, city=None))
    table.write({}, frame(spark, 2, many=1, city=None), mode="overwrite_partitions")
    table.write({}, frame(spark, 2, 4, many=1), mode="overwrite_partitions")

    assert [(row["day"].day, row["city"]) for row in table.rows() if row["day"].day in (2, 4)] in (
        [(2, "a b/c%"), (2, None), (4, "a b/c%")],
        [(2, None), (2, "a b/c%"), (4, "a b/c%")],
    )
    assert len(table.rows()) == 7


def test_an_attempt_of_spark_that_was_replaced_commits_no_more(spark: SparkSession, table: Table) -> None:
    slept: list[bool] = []

    def sleep(phase: WritePhase) -> None:
        if phase is WritePhase.CHECKED and not slept:
            slept.append(True)
            table.write(process_environ(attempt=2), frame(spark, 1, many=3).coalesce(1))

    more = {"partition_by": ["day", "city"]} if table.form == "delta" else {}
    with pytest.raises(AttemptFencedError):
        table.dataset(process_environ(), sleep).write(frame(spark, 1), **more)

    assert len(table.rows()) == 3
    assert len(list(table.folder.rglob("*.parquet"))) == 1


def test_no_rows_of_spark_are_no_commit(spark: SparkSession, table: Table) -> None:
    assert table.write({}, frame(spark)) is None
    assert emitted(table.dataset({})._table) == []

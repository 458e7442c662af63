"""A process that makes attempts of jobs, each of which writes a dataset once, with Spark or without; it stops itself
where it is told to.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamsched.domain.errors import AttemptFencedError, ConflictError
from streamsched.spark.pfs import PartitionedFileSet
from streamsched.spark.storage import FolderStorage
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.iceberg import IcebergDataset
from tests.faults.writers.processes import DATASET, DAYS, Frame, Place
from tests.support.run_environ import run_environ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES: Final = ("delta", "iceberg")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt `number` of a job, which stops itself by SIGSTOP when it reaches a phase; None: nowhere."""

    job: str
    number: int
    stop_at: str | None = None


def rows_of(attempt: Attempt) -> pa.Table:
    """The rows of one attempt: of each day as many as its number."""
    days = [day.partition("=")[2] for day in DAYS for _ in range(attempt.number)]
    columns = {"job": [attempt.job] * len(days), "attempt": [attempt.number] * len(days), "day": days}
    return pa.table(columns, schema=pa.schema({"job": pa.string(), "attempt": pa.int64(), "day": pa.string()}))


def serve(place: Place, said: Connection) -> None:
    """Makes the attempts that it receives. Says `ready`; of each every phase it reaches, and then `end: committed`,
    `end: fenced`, or `end: failed: …`.
    """
    spark = None if place.spark is None else _session(place.spark)
    said.send("ready")
    while (attempt := cast("Attempt | None", said.recv())) is not None:
        try:
            _write(place, attempt, _frame(place, attempt, spark), _watch(attempt, said))
            said.send("end: committed")
        except AttemptFencedError:
            said.send("end: fenced")
        except ConflictError as exc:  # of the API, which says in words that the attempt is fenced
            said.send("end: fenced" if "was fenced by attempt" in str(exc) else f"end: failed: {exc}")
        except Exception as exc:  # noqa: BLE001 - the judge decides
            said.send(f"end: failed: {type(exc).__name__}: {exc}")


def _session(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local[1]").appName("attempts")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _frame(place: Place, attempt: Attempt, spark: SparkSession | None) -> Any:
    """The rows of an attempt, as its dataset is given them."""
    if spark is not None:
        return spark.createDataFrame(rows_of(attempt))
    rows = rows_of(attempt)
    if place.store in TABLES:
        return rows
    return Frame(place, lambda day: rows.filter(pc.field("day") == day.partition("=")[2]).drop_columns(["day"]))


def _watch(attempt: Attempt, said: Connection) -> Callable[[Any], None]:
    stopped: list[bool] = []

    def reached(phase: Any) -> None:
        said.send(str(phase))
        if str(phase) == attempt.stop_at and not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)

    return reached


def make_table(place: Place) -> None:
    """Creates an Iceberg table; other datasets are created by their first write."""
    if place.store != "iceberg":
        return
    from pyiceberg.catalog import load_catalog
    from pyiceberg.transforms import IdentityTransform

    catalog = load_catalog("lake", **place.options)
    catalog.create_namespace("db")
    table = catalog.create_table(place.location, schema=rows_of(Attempt("", 1)).schema)
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day")


def settle(place: Place) -> None:
    """Announces what is not announced."""
    match place.store:
        case "delta":
            DeltaDataset(DATASET, place.location, environ=place.environ).announce()
        case "iceberg":
            IcebergDataset(
                DATASET, place.location, catalog="lake", options=place.options, environ=place.environ
            ).announce()
        case _:
            _file_set(place, place.environ).settle()


def _file_set(
    place: Place, environ: Mapping[str, str], watch: Callable[[Any], None] = lambda _: None
) -> PartitionedFileSet:
    options = None if place.store == "folder" else place.options
    return PartitionedFileSet(DATASET, place.location, environ=environ, watch=watch, storage_options=options)


def _write(place: Place, attempt: Attempt, rows: Any, watch: Callable[[Any], None]) -> None:
    environ = {**place.environ, **run_environ(attempt.job, attempt.number)}
    match place.store:
        case "delta":
            DeltaDataset(DATASET, place.location, environ=environ, watch=watch).write(rows, partition_by=["day"])
        case "iceberg":
            IcebergDataset(
                DATASET, place.location, catalog="lake", options=place.options, environ=environ, watch=watch
            ).write(rows)
        case _:
            _file_set(place, environ, watch).write(rows, partition_by=["day"])


def visible_rows(place: Place) -> pa.Table:
    """All rows that a reader of the dataset sees, with job and attempt."""
    match place.store:
        case "delta":
            from deltalake import DeltaTable

            return DeltaTable(place.location).to_pyarrow_table(columns=["job", "attempt"])
        case "iceberg":
            from pyiceberg.catalog import load_catalog

            return load_catalog("lake", **place.options).load_table(place.location).scan().to_arrow()
        case _:
            location = f"file://{place.location}" if place.store == "folder" else place.location
            storage = FolderStorage(location, place.options)
            found = []
            for manifest in _file_set(place, place.environ)._store.manifests():
                for path in (path for part in manifest.partitions for path in part.files):
                    with storage.open_file(path) as file:
                        found.append(pq.read_table(file, columns=["job", "attempt"]))
            return pa.concat_tables(found)

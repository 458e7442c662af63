"""Tables that real Spark writes with the formats' own jars: each commit with new data is one event."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compose.lakes.distribution import NEWEST_SPARK, SPARK, MissingError, cache_folder, conf, spark_folder
from streamsched.domain.errors import NotFoundError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.spark.tables.commit import TableSource
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.delta_source import DeltaSource
from streamsched.spark.tables.iceberg import IcebergDataset
from streamsched.spark.tables.iceberg_source import IcebergSource
from tests.integration.tables.conftest import FLIGHTS, emitted, run_of
from tests.support.services import need, need_java

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

WRITER = Path(__file__).with_name("spark_writer.py")
ROOT = Path(__file__).parents[3]


def environ(version: str) -> dict[str, str]:
    """Of a process with PySpark of this version: the installed one, or one of the cache."""
    import pyspark

    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    if pyspark.__version__ == version:
        return {**kept, "PYTHONPATH": str(ROOT)}
    try:
        folder = spark_folder(version, cache_folder(os.environ))
    except MissingError as error:
        need(f"PySpark {version}", False, str(error))
        raise
    return {**kept, "PYTHONPATH": f"{folder}:{ROOT}"}


def written(form: str, folder: Path) -> tuple[TableSource, list[dict[str, Any]]]:
    """A table that Spark wrote, and what each commit did."""
    need_java()
    place, said = folder / "warehouse" / "db" / "flights", folder / "said"
    try:
        options = conf(form, cache_folder(os.environ), str(folder / "warehouse"))
    except MissingError as error:
        need(f"the jars of {form}", False, str(error))
        raise
    done = subprocess.run(
        [sys.executable, str(WRITER), form, json.dumps(options), str(place), str(said)],
        cwd=folder,
        env=environ(SPARK),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    source = DeltaSource(str(place)) if form == "delta" else IcebergSource(str(place))
    return source, [json.loads(line) for line in said.read_text().splitlines()]


def rows(event: Event) -> dict[str, int | None]:
    assert isinstance(event.fact, PartitionsAdded)
    return {part.key: part.rows for part in event.fact.partitions}


def version(event: Event) -> int:
    found = re.match(r"(?:delta|iceberg)-(\d+)-", event.id)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_each_commit_of_spark_with_new_data_is_one_event(form: str, tmp_path: Path) -> None:
    source, commits = written(form, tmp_path)

    events = emitted(source)

    assert [version(each) for each in events] == [each["version"] for each in commits if each["added"]]
    wanted = {each["version"]: each for each in commits}
    for event in events:
        commit = wanted[version(event)]
        if commit["what"] == "merge":
            assert rows(event).keys() == commit["added"].keys()
            assert 1 <= (rows(event)["day=2026-01-02"] or 0) <= commit["added"]["day=2026-01-02"]
        else:
            assert rows(event) == commit["added"], commit["what"]
        assert all(part.bytes for part in event.fact.partitions)  # type: ignore[union-attr]
    what = {each["what"] for each in commits if not each["added"]}
    assert {"deletion of a partition", "compaction"} <= what

    dataset = DeltaDataset(FLIGHTS, source.location) if form == "delta" else IcebergDataset(FLIGHTS, source.location)
    last = run_of(events[-1:])
    assert sorted(dataset.to_arrow(last)["n"].to_pylist()) == [0, 1, 2]
    if form == "delta":  # VACUUM has deleted what was overwritten and compacted
        with pytest.raises(NotFoundError, match="vacuumed"):
            dataset.to_arrow(run_of(events[:1]))


@pytest.mark.parametrize("form", ["delta"])
def test_versions_that_spark_cleaned_up_are_not_lost(form: str, tmp_path: Path) -> None:
    """Delta's log clean-up deletes JSON files before a checkpoint."""
    source, commits = written(form, tmp_path)
    log = Path(source.location) / "_delta_log"
    third = commits[2]["version"]
    seen = next(step.position for step in source.after("") if step.position and f'"version":{third}' in step.position)

    import deltalake

    deltalake.DeltaTable(source.location).create_checkpoint()
    for file in log.glob("*.json"):
        file.unlink()
    whole = deltalake.DeltaTable(source.location)

    (gap,) = emitted(source, seen)

    assert gap.id.startswith(f"delta-{third + 1}-{whole.version()}-")
    assert "day=2026-01-05" in rows(gap)


SMOKE = """
import sys
from pyspark.sql import SparkSession
from streamsched.spark.pfs import PartitionedFileSet
import pyspark

assert pyspark.__version__ == sys.argv[1], pyspark.__version__
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())

class Nowhere:
    def emit(self, *what): pass

for place in (sys.argv[2] + "/folder", "file://" + sys.argv[2] + "/url"):
    flights = PartitionedFileSet("flights", place, emitter=Nowhere())
    frame = spark.createDataFrame([("2026-01-01", 1), ("2026-01-02", 2)], "day string, n int")
    flights.write(frame, partition_by=["day"])
    flights.write(frame.where("n = 1"), partition_by=["day"], mode="overwrite_partitions")
    assert sorted(row.n for row in flights.read(spark).collect()) == [1, 2]
    assert [row.n for row in flights.read_partitions(spark, ["day=2026-01-02"]).collect()] == [2]
print("read and written with", spark.version)
"""


def test_file_sets_on_the_newest_spark_of_all(tmp_path: Path) -> None:
    need_java()
    done = subprocess.run(
        [sys.executable, "-c", SMOKE, NEWEST_SPARK, str(tmp_path)],
        env=environ(NEWEST_SPARK),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"read and written with {NEWEST_SPARK}" in done.stdout

"""Tables that real Spark writes with the formats' own jars: each commit with new data is one event."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compose.downloads import MissingError
from compose.lakes.distribution import SPARK, cache_folder, conf
from streamsched.domain.errors import NotFoundError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.spark.tables.delta import DeltaDataset
from streamsched.spark.tables.delta_source import DeltaSource
from streamsched.spark.tables.iceberg import IcebergDataset
from streamsched.spark.tables.iceberg_source import IcebergSource
from streamsched.spark.tables.table_source import TableSource
from tests.integration.tables.conftest import FLIGHTS, emitted, run_of
from tests.support.services import need, need_java

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

WRITER = Path(__file__).with_name("spark_writer.py")
FORMS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of each form, which one Spark wrote; see `spark_writer`."""
    import pyspark

    need_java()
    need(f"PySpark {SPARK}", pyspark.__version__ == SPARK, f"it is {pyspark.__version__}")
    folder = tmp_path_factory.mktemp("warehouse")
    try:
        options = [conf(form, cache_folder(os.environ), str(folder)) for form in FORMS]
    except MissingError as error:
        need("the jars of Delta Lake and Iceberg", False, str(error))
        raise
    both = {name: value for each in options for name, value in each.items()}
    for name in ("spark.jars", "spark.sql.extensions"):
        both[name] = ",".join(each[name] for each in options)
    done = subprocess.run(
        [sys.executable, str(WRITER), json.dumps(both), str(folder)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def written(warehouse: Path, form: str) -> tuple[TableSource, list[dict[str, Any]]]:
    """The table of a form, and what each commit did."""
    place = str(warehouse / form / "flights")
    source = DeltaSource(place) if form == "delta" else IcebergSource(place)
    return source, [json.loads(line) for line in (warehouse / f"{form}.jsonl").read_text().splitlines()]


def rows(event: Event) -> dict[str, int | None]:
    assert isinstance(event.fact, PartitionsAdded)
    return {part.key: part.rows for part in event.fact.partitions}


def version(event: Event) -> int:
    found = re.match(r"(?:delta|iceberg)-(\d+)-", event.id)
    assert found is not None
    return int(found[1])


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMS)
def test_each_commit_of_spark_with_new_data_is_one_event(form: str, warehouse: Path) -> None:
    source, commits = written(warehouse, form)

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


@pytest.mark.nightly
def test_versions_that_spark_cleaned_up_are_not_lost(warehouse: Path, tmp_path: Path) -> None:
    """Delta's log clean-up deletes JSON files and checkpoints before a checkpoint."""
    _, commits = written(warehouse, "delta")
    source = DeltaSource(str(shutil.copytree(warehouse / "delta" / "flights", tmp_path / "flights")))
    log = Path(source.location) / "_delta_log"
    third = commits[2]["version"]
    seen = next(
        step.position for step in source.steps_after("") if step.position and f'"version":{third}' in step.position
    )

    import deltalake

    deltalake.DeltaTable(source.location).create_checkpoint()
    newest = f"{deltalake.DeltaTable(source.location).version():020d}"
    for file in (*log.glob("*.json"), *(each for each in log.glob("*.parquet") if not each.name.startswith(newest))):
        file.unlink()
    whole = deltalake.DeltaTable(source.location)

    (gap,) = emitted(source, seen)

    assert gap.id.startswith(f"delta-{third + 1}-{whole.version()}-")
    assert "day=2026-01-05" in rows(gap)

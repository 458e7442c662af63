"""A Spark program with a bug fails, its file is corrected, and `run rerun` reads exactly what the failed run had read.

Partitions land before the schedule exists, for the failed run, and after it. The rerun is muted; the end of the next
run of the same program is not, and shows that a muted end would have been seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamsched.emit.destination import DATA_DIR
from streamsched.spark.pfs import PartitionedFileSet
from tests.support.dev_process import DevProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

APP = """
from pathlib import Path
from streamsched import App, partitions, program

here = Path(__file__).parent
quick = {"spark.sql.shuffle.partitions": "2"}
app = App("fix")
count = app.spark("count", main="count.py", conf=quick)
note = f"echo $STREAMSCHED_ARG_TRIGGER_RUN >> {here}/"
app.schedule("three-days", count, when=partitions("days", 3))
app.schedule("then", app.bash("then", note + "then"), when=program(count, "succeeded"), overlap="queue")
app.schedule("alarm", app.bash("alarm", note + "alarm"), when=program(count, "failed"), overlap="queue")
"""
#: Reads, says what it read, and then counts by a column that does not exist.
WITH_BUG = """
import json
from pathlib import Path
from pyspark.sql import SparkSession
from streamsched import PartitionedFileSet, current_run

here, run = Path(__file__).parent, current_run()
spark = SparkSession.builder.getOrCreate()
new = PartitionedFileSet("days", here / "days").read_new(run, spark)
read = {
    "partitions": [partition.key for partition in run.new_partitions("days")],
    "rows": sorted([row.day, row.n] for row in new.collect()),
    "satisfied_at": run.arguments["trigger.satisfied_at"],
}
(here / f"{run.run_id}.read").write_text(json.dumps(read))
counts = {row.day: row["count"] for row in new.groupBy("date").count().collect()}
(here / f"{run.run_id}.counts").write_text(json.dumps(counts))
spark.stop()
"""
CORRECTED = WITH_BUG.replace('groupBy("date")', 'groupBy("day")')

ROWS = 3
JOB, NEXT = "default.fix.three-days.1.1", "default.fix.three-days.1.2"
RERUN = f"{JOB}.rerun-1"


@pytest.fixture
def dev(java: None, tmp_path: Path) -> Iterator[DevProcess]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "count.py").write_text(WITH_BUG)
    dev = DevProcess(tmp_path)
    dev.start()
    try:
        yield dev
    finally:
        dev.close()


def land(dev: DevProcess, spark: SparkSession, *days: int) -> None:
    """One commit of a partition for each day, announced to the scheduler of the folder."""
    rows = [(f"2013-01-{day:02d}", n) for day in days for n in range(ROWS)]
    file_set = PartitionedFileSet("days", dev.folder / "days", environ={DATA_DIR: str(dev.state)})
    written = file_set.write(spark.createDataFrame(rows, "day string, n int").coalesce(1), partition_by=["day"])
    assert written.announced


def ended(dev: DevProcess, run: str) -> dict[str, Any]:
    """The run, once it has ended."""

    def found() -> dict[str, Any] | None:
        shown = dev.run("run", "show", run, "-o", "json")
        return shown.json if shown.code == 0 and shown.json["endedAt"] else None

    return dev.until(found, within=240)


def said(dev: DevProcess, run: str, what: str) -> Any:
    """What a run of the program wrote."""
    return json.loads((dev.folder / f"{run}.{what}").read_text())


def rows(*days: int) -> Sequence[Sequence[Any]]:
    return [[f"2013-01-{day:02d}", n] for day in days for n in range(ROWS)]


@pytest.mark.nightly
def test_a_rerun_after_a_fixed_bug_reads_the_partitions_of_the_failed_run(dev: DevProcess, spark: SparkSession) -> None:
    land(dev, spark, 1)  # before the schedule exists: counts for none of its runs
    assert dev.run("deploy", "app.py").code == 0
    land(dev, spark, 2)
    land(dev, spark, 3, 4)
    failed = ended(dev, f"{JOB}.r1")
    assert (failed["state"], failed["exitCode"]) == ("FAILED", 1), dev.run("run", "logs", f"{JOB}.r1").out[-3000:]
    assert "UNRESOLVED_COLUMN" in dev.run("run", "logs", f"{JOB}.r1").out
    first = said(dev, f"{JOB}.r1", "read")
    assert first["rows"] == rows(2, 3, 4)
    land(dev, spark, 5)  # one of the three that the next run waits for

    (dev.folder / "count.py").write_text(CORRECTED)
    made = dev.run("run", "rerun", f"{JOB}.r1", "--mute", "--reason", "ann: the column is day")
    assert made.code == 0, made.err
    assert "fix.three-days.1.1.rerun-1 is submitted" in made.out
    repeated = ended(dev, f"{RERUN}.r1")

    assert repeated["state"] == "COMPLETED", dev.run("run", "logs", f"{RERUN}.r1").out[-3000:]
    assert (repeated["rerunOf"], repeated["muted"]) == (f"{JOB}.r1", True)
    assert said(dev, f"{RERUN}.r1", "read") == first, "the same partitions, rows and time of the satisfaction"
    assert said(dev, f"{RERUN}.r1", "counts") == {f"2013-01-0{day}": ROWS for day in (2, 3, 4)}

    land(dev, spark, 6, 7)
    following = ended(dev, f"{NEXT}.r1")
    assert following["state"] == "COMPLETED", dev.run("run", "logs", f"{NEXT}.r1").out[-3000:]
    assert said(dev, f"{NEXT}.r1", "read")["rows"] == rows(5, 6, 7), "the rerun used up nothing of what landed since"
    noted = dev.until(lambda: [path.read_text() for path in dev.folder.glob("then") if path.stat().st_size])
    assert noted == [f"{NEXT}.r1\n"], "the end of the muted rerun started nothing"
    assert (dev.folder / "alarm").read_text() == f"{JOB}.r1\n", "the failed run was announced, once"
    started = "default.fix.then.1.1.r1", "default.fix.alarm.1.1.r1"
    dev.until(lambda: dev.completed(f"{RERUN}.r1", f"{NEXT}.r1", *started))

"""One event from commit to run, by the stations of docs/explanation/one-event.md: real PostgreSQL and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import schedule_key
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import key_hash
from streamsched.log.drivers import open_broker
from streamsched.log.records import records
from streamsched.log.topics import JUDGED, LAUNCH, PARTITIONS, POSITION_KEY, PROGRAM_STATUS, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker, Record, TopicPartition
from streamsched.spark.manifest import Manifest
from streamsched.store.server.embedded_server import start_server
from tests.support.dev_process import DevProcess

APP = """
from pathlib import Path
from streamsched import App, partitions, program

here = Path(__file__).parent
quick = {"spark.sql.shuffle.partitions": "2"}
app = App("way")
land = app.spark("land", main="land.py", arguments=["{days}"], conf=quick)
read = app.spark("read", main="read.py", conf=quick)
after = app.bash("after", f"touch {here}/after")
"""
SCHEDULES = """
app.schedule("three-days", read, when=partitions("days", 3))
app.schedule("then", after, when=program(read, "succeeded"))
"""
LAND = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from streamsched.spark.pfs import PartitionedFileSet

spark = SparkSession.builder.getOrCreate()
days = PartitionedFileSet("days", Path(__file__).parent / "days")
for commit in sys.argv[1].split(","):
    rows = [(day, n) for day in commit.split("+") for n in range(10)]
    days.write(spark.createDataFrame(rows, ["day", "n"]), partition_by=["day"])
spark.stop()
"""
READ = """
import json
from pathlib import Path
from pyspark.sql import SparkSession
from streamsched.spark.context import current_run
from streamsched.spark.pfs import PartitionedFileSet

here, run = Path(__file__).parent, current_run()
spark = SparkSession.builder.getOrCreate()
new = PartitionedFileSet("days", here / "days").read_new(run)
found = {row.day: row["count"] for row in new.groupBy("day").count().collect()}
(here / "read.json").write_text(json.dumps({"run": run.run_id, "job": run.job_id, "rows": found}))
spark.stop()
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    dev = DevProcess(tmp_path)
    for name, text in (("before.py", APP), ("app.py", APP + SCHEDULES), ("land.py", LAND), ("read.py", READ)):
        (tmp_path / name).write_text(text)
    dev.start()
    yield dev
    dev.close()


def land(dev: DevProcess, commits: str) -> None:
    """Runs the landing program by hand; days joined by + land in one commit."""
    started = dev.run("program", "start", "way.land", f"days={commits}", "-o", "json")
    assert started.code == 0, started.err
    dev.until(lambda: state(dev, started.json["run"]) in {"COMPLETED", "FAILED"}, within=180)
    assert state(dev, started.json["run"]) == "COMPLETED", dev.run("run", "logs", started.json["run"]).out


def state(dev: DevProcess, run: str) -> str:
    return dev.run("run", "show", run, "-o", "json").json["state"]


async def read(broker: Broker, topic: str) -> list[Record]:
    """Everything the log has of a topic."""
    places = [TopicPartition(topic, n) for n in range(await broker.partitions(topic))]
    return [record for place in places async for record in records(broker, place)]


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(600)
async def test_follow_one_event(java: None, dev: DevProcess) -> None:
    assert dev.run("deploy", "before.py").code == 0
    land(dev, "2013-01-01")  # before any schedule listens: must not count
    assert dev.run("deploy", "app.py").code == 0
    land(dev, "2013-01-02,2013-01-03+2013-01-04")
    job, run = "default.way.three-days.1.1", "default.way.three-days.1.1.r1"
    dev.until((dev.folder / "after").exists, within=180)

    # 1 commit: the manifests say what landed, and each commit's id is its event's
    manifests = [Manifest.decode(path.read_bytes()) for path in sorted((dev.folder / "days").glob("_manifest/*.json"))]
    assert [len(manifest.partitions) for manifest in manifests] == [1, 1, 2]

    broker = await open_broker(url := start_server(dev.state / "postgres").url)
    database = await asyncpg.connect(url)
    try:
        # 2 emit: one event a commit on the public topic
        public = [json.loads(record.value or b"") for record in await read(broker, PARTITIONS)]
        assert [event["id"] for event in public] == [manifest.commit for manifest in manifests]

        # 3 ingest re-keys by what it is about, 4 the event home forwards to the one that listened by then
        home = schedule_key(ScheduleRef("default", "way", "three-days"), key_hash("partition:default.days")).encode()
        taken = [*await read(broker, SIGNALS), *await read(broker, JUDGED)]
        signals = [(r.key, json.loads(r.value or b"")) for r in taken]
        ids = [event["id"] for event in public]
        ingested = [value["id"] for key, value in signals if key == b"partition:default.days" and "id" in value]
        forwarded = [value["id"] for key, value in signals if key == home and "id" in value]
        assert (ingested, forwarded) == (ids, ids[1:])

        # 5 the schedule home folded them to a satisfaction and forgot them, 6 in the turn that made the job visible
        changelog = await read(broker, TRIGGERS_CHANGELOG)
        states = [r.value for r in changelog if r.key == home and r.value]
        last = state_codec.decode(states[-1])
        assert (last.sequence, dict(last.accumulations)) == (1, {})
        assert any(record.key == POSITION_KEY for record in changelog)
        ready = [launch_codec.decode(record.value or b"") for record in await read(broker, LAUNCH)]
        assert [each.id for each in ready] == [job, "default.way.then.1.1"]
        (contribution,) = ready[0].contributions
        assert (contribution.count, [event.id for event in contribution.events]) == (3, ids[1:])

        # 7 intake: a row, and the position beside it
        row = await database.fetchrow("SELECT state, satisfied_at FROM jobs WHERE id = $1", job)
        assert (row["state"], row["satisfied_at"]) == ("LAUNCHED", ready[0].satisfied_at)
        assert await database.fetchval("SELECT sum(position) FROM intake_positions WHERE topic = 'launch'") == 2

        # 8 launcher: the decision and its run; 9 runner: the log it kept, and what the job read
        actions = await database.fetch("SELECT action FROM decisions WHERE subject = $1 ORDER BY id", run)
        assert [each["action"] for each in actions] == ["run.created", "run.claimed", "run.started", "run.completed"]
        reported = json.loads((dev.folder / "read.json").read_text())
        assert reported == {"run": run, "job": job, "rows": {"2013-01-02": 10, "2013-01-03": 10, "2013-01-04": 10}}
        assert (dev.state / "logs" / f"{run}.log").exists()

        # 10 status: the run's end went out as an event, once, and was the next program's beginning
        said = [json.loads(record.value or b"") for record in await read(broker, PROGRAM_STATUS)]
        assert [event["id"] for event in said].count(f"{run}:COMPLETED") == 1
    finally:
        await database.close()
        await broker.close()
    dev.until(lambda: dev.completed(run, "default.way.then.1.1.r1"))

"""The streaming job: rows of Spark's rate source, appended as Parquet, one folder for each batch; after each batch one
event says how much was written. It depends on no schedule.

    STREAMSCHED_EMIT_URL=http://127.0.0.1:8765 python stream.py --data /data/clicks --batches 20

The event's id is made from the number of the batch, which is the same when Spark repeats a batch after a failure: so
its bytes count once.
"""

import argparse
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streamsched import Emitter
from streamsched.emit.destination import find_destination
from streamsched.emit.draft import stream_size


class BatchesDone(StreamingQueryListener):
    """Sets an event after so many batches with rows."""

    def __init__(self, batches: int) -> None:
        self.reached = threading.Event()
        self._left = batches

    # ruff: noqa: N802 - Spark's names
    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...
    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._left -= event.progress.numInputRows > 0
        if self._left <= 0:
            self.reached.set()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.reached.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rows-per-second", type=int, default=2000)
    args = parser.parse_args()
    raw = args.data / "raw"

    spark = (
        SparkSession.builder.appName("clicks")
        .master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    found = find_destination()
    if found is None:
        parser.error("no installation is known: set STREAMSCHED_EMIT_URL")
    done = BatchesDone(args.batches)
    spark.streams.addListener(done)
    with Emitter(found.url, source="/streams/clicks", spool=found.spool, token=found.token) as emitter:

        def land(rows: DataFrame, batch: int) -> None:
            folder = raw / f"batch={batch}"
            rows.coalesce(1).write.mode("overwrite").parquet(str(folder))
            size = sum(file.stat().st_size for file in folder.glob("*.parquet"))
            name = f"clicks-{raw.resolve()}-{batch}"
            emitter.emit(stream_size("clicks", size, absolute=False, event_id=name))
            print(f"batch {batch}: {size} bytes", flush=True)

        query = (
            spark.readStream.format("rate")
            .option("rowsPerSecond", args.rows_per_second)
            .load()
            .writeStream.foreachBatch(land)
            .option("checkpointLocation", str(args.data / "checkpoint"))
            .start()
        )
        done.reached.wait()
        query.stop()
        if (failure := query.exception()) is not None:
            raise failure
    spark.stop()


if __name__ == "__main__":
    main()

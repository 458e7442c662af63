"""Streaming queries on real Spark: batches as commits, and stream sizes of a listener."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamsched import PartitionedFileSet, StreamSizeListener, write_batches
from streamsched.domain.errors import ConfigurationError, ConflictError, InvalidError, UnavailableError
from streamsched.domain.events.event import Event, PartitionsAdded, StreamSize
from streamsched.emit import Emitted, EventDraft
from streamsched.emit.draft import complete_event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

NOW = datetime(2013, 1, 8, tzinfo=UTC)
ROWS = 10
FILES = 3


class Server:
    """Keeps what it accepts; `away` makes it refuse connections. Spark calls listeners on threads of its own."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.away = False
        self.missed = 0
        self._changed = threading.Condition()

    def emit(self, *what: EventDraft | Event) -> Emitted:
        with self._changed:
            self._changed.notify_all()
            if self.away:
                self.missed += 1
                raise UnavailableError("no server there")
            self.events += [complete_event(each, source="test", now=NOW) for each in what]
        return Emitted(len(what))

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Returns when it holds, at the latest after a minute."""
        with self._changed:
            self._changed.wait_for(holds, timeout=60)

    def sizes(self) -> dict[str, int]:
        """Id → bytes; an id that came twice came with the same bytes."""
        found: dict[str, int] = {}
        for each in self.events:
            if isinstance(each.fact, StreamSize):
                assert found.setdefault(each.id, each.fact.bytes) == each.fact.bytes
                assert not each.fact.absolute
        return found

    def commits(self) -> list[str]:
        return [each.id for each in self.events if isinstance(each.fact, PartitionsAdded)]


class Query:
    """A query that reads a file of ten rows in each batch, until no file is left."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        (folder / "in").mkdir()
        for number in range(FILES):
            rows = [json.dumps({"n": n, "day": f"2026-01-0{number + 1}", "word": "x" * 9}) for n in range(ROWS)]
            (folder / "in" / f"{number}.json").write_text("\n".join(rows))

    def run(self, write: Callable[[DataFrame, int], None]) -> tuple[str, Exception | None]:
        """Its id, and what it failed with."""
        from pyspark.errors import StreamingQueryException
        from pyspark.sql import functions as f

        rows = (
            self.spark.readStream.schema("n int, day string, word string")
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "in"))
            .observe("sizes", f.sum(f.octet_length("word")).alias("bytes"))
        )
        query = (
            rows.writeStream.foreachBatch(write)
            .queryName("clicks")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        failed: Exception | None = None
        try:
            query.awaitTermination(200)
        except StreamingQueryException as exc:
            failed = exc
        return str(query.id), failed


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path)


@pytest.fixture
def listening(spark: SparkSession) -> Iterator[Callable[[StreamSizeListener], None]]:
    """Adds a listener for the time of the test."""
    added: list[Any] = []

    def add(listener: StreamSizeListener) -> None:
        spark.streams.addListener(listener)
        added.append(listener)

    yield add
    for each in added:
        spark.streams.removeListener(each)


def test_a_batch_that_is_repeated_after_a_failure_commits_and_announces_once(query: Query, tmp_path: Path) -> None:
    """Spark repeats batch 1 after a failure behind its announcement, and batch 2 after one before it."""
    server = Server()
    files = PartitionedFileSet("clicks", tmp_path / "clicks", emitter=server)
    write = write_batches(files, partition_by=["day"], stream="clicks", emitter=server)

    def fails_behind(rows: DataFrame, batch: int) -> None:
        write(rows, batch)
        if batch == 1:
            raise RuntimeError("the driver fails before Spark has noted the batch")

    def fails_before(rows: DataFrame, batch: int) -> None:
        server.away = batch == 2
        write(rows, batch)

    name, failed = query.run(fails_behind)
    assert "before Spark has noted the batch" in str(failed)
    again, failed = query.run(fails_before)
    assert (again, "no server there" in str(failed)) == (name, True)
    server.away = False
    again, failed = query.run(write)
    assert (again, failed) == (name, None)

    batches = [f"stream-{name}-{batch}" for batch in range(FILES)]
    parts = files.partitions()
    assert [(part.key, part.rows) for part in parts] == [(f"day=2026-01-0{day}", ROWS) for day in (1, 2, 3)]
    assert server.commits() == batches
    assert server.sizes() == {f"{each}-size": part.bytes for each, part in zip(batches, parts, strict=True)}


def test_a_listener_counts_a_repeated_batch_once_and_sends_later_what_it_could_not_send(
    query: Query, listening: Callable[[StreamSizeListener], None]
) -> None:
    """Batch 1 fails and is repeated; the server is away until batch 2."""
    rows, words = Server(), Server()
    rows.away = True
    listening(StreamSizeListener({"clicks": "rows", "others": "x"}, emitter=rows))
    listening(StreamSizeListener({"clicks": "words"}, observed=("sizes", "bytes"), emitter=words))
    listening(StreamSizeListener({"clicks": "none"}, observed=("none", "bytes"), emitter=words))
    fails = {1}

    def read(frame: DataFrame, batch: int) -> None:
        frame.write.format("noop").mode("append").save()
        if batch in fails:
            fails.remove(batch)
            raise RuntimeError("once")
        if batch == FILES - 1:
            rows.wait_for(lambda: rows.missed > 0)
            rows.away = False

    name, failed = query.run(read)
    assert "once" in str(failed)
    again, failed = query.run(read)
    assert (again, failed) == (name, None)

    batches = [f"stream-{name}-{batch}" for batch in range(FILES)]
    rows.wait_for(lambda: len(rows.events) >= FILES)
    words.wait_for(lambda: len(words.events) >= FILES)
    assert rows.missed > 0
    assert [(each.id, size) for each, size in zip(rows.events, rows.sizes().values(), strict=True)] == [
        (f"{each}-rows", ROWS) for each in batches
    ]
    assert words.sizes() == {f"{each}-bytes": 9 * ROWS for each in batches}


def test_bad_input_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    files = PartitionedFileSet("clicks", tmp_path / "clicks", emitter=Server())
    rows = spark.createDataFrame([(1, "2026-01-01")], "n int, day string")

    with pytest.raises(InvalidError, match="at least one column"):
        write_batches(files, partition_by=[])
    with pytest.raises(InvalidError, match="must be one of append"):
        write_batches(files, partition_by=["day"], mode="replace")
    with pytest.raises(ConflictError, match="name the query"):
        write_batches(files, partition_by=["day"])(rows, 0)
    with pytest.raises(ConfigurationError, match="growth of streams cannot be announced"):
        StreamSizeListener({"clicks": "clicks"}, environ={"STREAMSCHED_DATA_DIR": str(tmp_path)})

    write_batches(files, partition_by=["day"], query="clicks-1")(rows, 0)
    assert [each.key for each in files.partitions()] == ["day=2026-01-01"]

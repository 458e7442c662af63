"""Folders of partitions that others write: complete by a marker or by a quiet time."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.errors import ConfigurationError, ConflictError, NotFoundError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.spark.tables.folder_source import Completeness, FolderSource
from streamsched.testing.clock import SettableClock
from tests.integration.tables.conftest import Server, emitted

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MARKED = Completeness("_SUCCESS")


class Folder:
    """A folder whose files have times of their own, a second apart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SettableClock(BEGIN)
        root.mkdir()

    def put(self, path: str, content: bytes = b"x") -> None:
        self.clock.advance(timedelta(seconds=1))
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        seconds = self.clock.now().timestamp()
        os.utime(file, (seconds, seconds))

    def source(self, complete: Completeness = MARKED, **more: Any) -> FolderSource:
        return FolderSource(str(self.root), complete, clock=self.clock, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "logs")


def partitions(events: list[Event]) -> list[tuple[str, int | None, int | None]]:
    facts = [each.fact for each in events]
    return [(p.key, p.bytes, p.rows) for fact in facts if isinstance(fact, PartitionsAdded) for p in fact.partitions]


def test_a_partition_is_announced_when_its_marker_follows(folder: Folder) -> None:
    folder.put("day=1/a.parquet", b"xx")
    folder.put("day=1/b.parquet", b"x")
    assert emitted(folder.source()) == []
    folder.put("day=1/_SUCCESS")

    (event,) = emitted(folder.source())

    assert partitions([event]) == [("day=1", 3, None)]
    assert isinstance(event.fact, PartitionsAdded)
    assert event.fact.partitions[0].values == {"day": "1"}
    assert event.time == BEGIN + timedelta(seconds=2)
    folder.put("day=1/c.parquet")
    assert emitted(folder.source()) == []
    folder.put("day=1/_SUCCESS")
    (changed,) = emitted(folder.source(), folder.source().head(back=1))
    assert (partitions([changed]), changed.id == event.id) == ([("day=1", 4, None)], False)


def test_a_marker_above_completes_all_partitions_of_a_job(folder: Folder) -> None:
    folder.put("day=1/hour=1/a")
    folder.put("day=2/hour=1/a")
    folder.put("_SUCCESS")
    folder.put("day=3/hour=1/a")

    source = folder.source()
    seen = source.head()

    assert [key for key, _, _ in partitions(emitted(source))] == ["day=1/hour=1", "day=2/hour=1"]
    folder.put("day=2/hour=1/b")
    folder.put("_SUCCESS")
    assert [key for key, _, _ in partitions(emitted(source, seen))] == ["day=3/hour=1", "day=2/hour=1"]
    assert emitted(source, source.head()) == []


def test_a_partition_is_announced_when_it_was_quiet(folder: Folder) -> None:
    source = folder.source(Completeness(quiet=timedelta(minutes=1)))
    folder.put("day=1/a")
    folder.clock.advance(timedelta(seconds=59))
    assert emitted(source) == []
    folder.clock.advance(timedelta(seconds=1))

    assert partitions(emitted(source)) == [("day=1", 1, None)]


def test_hidden_names_are_no_data(folder: Folder) -> None:
    for path in ("_temporary/0/a", "day=1/.a.crc", "day=1/_metadata", ".hidden/a", "day=2/_staging/a", "a"):
        folder.put(path)
    folder.put("_SUCCESS")

    assert partitions(emitted(folder.source())) == [(".", 1, None)]


def test_a_partition_that_is_gone_and_back_is_new(folder: Folder) -> None:
    folder.put("day=1/a")
    folder.put("day=2/a")
    folder.put("_SUCCESS")
    source = folder.source()
    seen = source.head()
    (folder.root / "day=1" / "a").rename(folder.root / "kept")
    (folder.root / "kept").rename(folder.root / "_kept")
    folder.put("day=3/a")
    folder.put("_SUCCESS")
    steps = list(source.steps_after(seen))
    (folder.root / "_kept").rename(folder.root / "day=1" / "a")

    assert [step.commit.partitions[0].key for step in steps if step.commit] == ["day=3"]
    assert partitions(emitted(source, steps[-1].position or "")) == [("day=1", 1, None)]


def test_rows_are_those_of_the_footers(folder: Folder) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.put("day=1/a.parquet")
    pq.write_table(pa.table({"n": [1, 2, 3]}), folder.root / "day=1" / "a.parquet")
    os.utime(folder.root / "day=1" / "a.parquet", (BEGIN.timestamp(), BEGIN.timestamp()))
    folder.put("_SUCCESS")

    assert [rows for _, _, rows in partitions(emitted(folder.source(rows=True)))] == [3]
    folder.put("day=2/a.parquet")
    folder.put("_SUCCESS")
    with pytest.raises(ConfigurationError, match="is not Parquet"):
        emitted(folder.source(rows=True))


def test_what_is_no_folder_has_a_clear_reason(folder: Folder) -> None:
    folder.put("file")
    clock = folder.clock
    with pytest.raises(NotFoundError, match=r"'.*nowhere/?' was not found"):
        FolderSource(str(folder.root / "nowhere"), MARKED, clock=clock).head()
    with pytest.raises(ConfigurationError, match=r"Protocol not known: zz"):
        FolderSource("zz://bucket/x", MARKED, clock=clock).head()
    with pytest.raises(ConflictError, match="another folder"):
        list(FolderSource(str(folder.root.parent), MARKED, clock=clock).steps_after(folder.source().head()))


def test_many_partitions_need_few_positions(folder: Folder) -> None:
    for number in range(250):
        (folder.root / f"n={number}").mkdir()
        (folder.root / f"n={number}" / "a").touch()
        os.utime(folder.root / f"n={number}" / "a", (BEGIN.timestamp(), BEGIN.timestamp()))
    folder.put("_SUCCESS")

    steps = list(folder.source().steps_after(""))

    assert [number for number, step in enumerate(steps, 1) if step.position] == [100, 200, 250]
    assert len({step.commit.id for step in steps if step.commit}) == 250


@pytest.mark.postgres
async def test_a_watcher_announces_each_partition_once(server: Server, folder: Folder) -> None:
    folder.put("day=1/a")
    folder.put("day=2/a")
    folder.put("_SUCCESS")

    seen = [await server.look(folder.source()), await server.look(folder.source())]

    assert [len(each.commits) for each in seen] == [2, 0]
    assert partitions(await server.events()) == [("day=1", 1, None), ("day=2", 1, None)]

"""File sets on a storage that cannot create a file only if it is absent: their commits are rows behind a real API."""

from __future__ import annotations

import asyncio
import io
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import asyncpg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamsched.domain.datasets.file_set_commit import JobEpoch
from streamsched.domain.errors import AttemptFencedError, ConflictError, NotFoundError, UnavailableError
from streamsched.domain.names import DatasetRef
from streamsched.ports.clock import Clock, SystemClock
from streamsched.spark.manifest import Columns, Manifest, Mode, Phase, visible_partitions
from streamsched.spark.object_store import ObjectStore
from streamsched.spark.storage import FolderStorage
from streamsched.spark.writes.write import Author, Write
from streamsched.store.datasets.file_set_commits import FileSetCommitStore
from streamsched.testing.clock import SettableClock
from tests.integration.tables.conftest import Server

pytestmark = pytest.mark.postgres

DATASET = DatasetRef("default", "flights")
COLUMNS = Columns('{"type":"struct","fields":[]}', ("day",))
T = TypeVar("T")


@pytest.fixture
def location() -> str:
    return f"memory://lake-{uuid.uuid4().hex}/flights"


def store(url: str, location: str, clock: Clock | None = None) -> ObjectStore:
    environ = {"STREAMSCHED_URL": url}
    return ObjectStore(FolderStorage(location), dataset=DATASET, clock=clock or SystemClock(), environ=environ)


def commit(
    url: str, location: str, name: str, days: list[int], *, mode: Mode = Mode.APPEND, rows: int = 3
) -> Manifest | None:
    using, write, content = store(url, location), Write(name), io.BytesIO()
    pq.write_table(pa.table({"n": list(range(rows))}), content)
    with using.stage(write) as folder:
        for day in days:
            FolderStorage(location).put(f"{folder}/day={day}/part-0.parquet", content.getvalue())
        return using.publish(write, COLUMNS, mode)


async def beside(work: Callable[[], T]) -> T:
    """Beside the API, which this process serves."""
    return await asyncio.to_thread(work)


async def seen(server: Server, location: str) -> dict[str, int | None]:
    manifests = await beside(store(server.url, location).manifests)
    assert [each.sequence for each in manifests] == list(range(1, len(manifests) + 1))
    return {key: each.partition.rows for key, each in visible_partitions(manifests).items()}


async def test_commits_have_one_order_and_each_id_is_visible_once(server: Server, location: str) -> None:
    assert await seen(server, location) == {}
    await beside(lambda: commit(server.url, location, "a", [1, 2]))
    await beside(lambda: commit(server.url, location, "b", [2], rows=4))
    first = await beside(lambda: commit(server.url, location, "c", [1], mode=Mode.OVERWRITE_PARTITIONS, rows=5))
    again = await beside(lambda: commit(server.url, location, "c", [1], mode=Mode.OVERWRITE_PARTITIONS, rows=9))

    assert again == first
    assert await seen(server, location) == {"day=1": 5, "day=2": 7}


async def test_writers_at_the_same_time_all_commit(server: Server, location: str) -> None:
    def writer(number: int) -> Callable[[], object]:
        return lambda: commit(server.url, location, f"w{number}", [number % 2])

    await asyncio.gather(*(beside(writer(number)) for number in range(12)))

    assert await seen(server, location) == {"day=0": 18, "day=1": 18}


async def test_a_commit_of_one_id_by_several_attempts_is_one(server: Server, location: str) -> None:
    found = await asyncio.gather(*(beside(lambda: commit(server.url, location, "a", [1])) for _ in range(6)))

    assert len({str(each) for each in found}) == 1
    assert await seen(server, location) == {"day=1": 3}


async def test_a_dataset_has_one_location(server: Server, location: str) -> None:
    await beside(lambda: commit(server.url, location, "a", [1]))

    with pytest.raises(ConflictError, match="and not at memory://elsewhere"):
        await beside(lambda: commit(server.url, "memory://elsewhere", "b", [1]))


async def test_a_write_without_the_api_becomes_visible_when_it_is_repeated(server: Server, location: str) -> None:
    with pytest.raises(UnavailableError, match="no streamsched API at"):
        commit("http://127.0.0.1:9", location, "a", [1])

    assert await seen(server, location) == {}
    await beside(lambda: commit(server.url, location, "a", [1]))
    assert await seen(server, location) == {"day=1": 3}


async def test_vacuum_deletes_the_manifests_that_no_commit_has(server: Server, location: str) -> None:
    await beside(lambda: commit(server.url, location, "a", [1]))
    storage = FolderStorage(location)
    storage.put("_manifest/killed.1.json", b"{}")
    now = SettableClock(datetime.now(UTC))
    now.advance(timedelta(minutes=2))

    assert await beside(lambda: store(server.url, location, now).vacuum(timedelta(minutes=5))) == 0
    assert await beside(lambda: store(server.url, location, now).vacuum(timedelta(minutes=1))) == 1
    assert await seen(server, location) == {"day=1": 3}


async def test_commits_of_deleted_files_are_an_error_until_they_are_forgotten(server: Server, location: str) -> None:
    await beside(lambda: commit(server.url, location, "a", [1]))
    storage = FolderStorage(location)
    storage.delete([file.path for file in storage.files("_manifest")])

    with pytest.raises(NotFoundError, match=r"a\..*json.*DELETE"):
        await seen(server, location)


def author(attempt: int) -> Author:
    return Author("default.sc.w.1.1", attempt, 1)


async def test_an_attempt_that_was_replaced_commits_no_more(server: Server, location: str) -> None:
    """Its request is made after its last check; PostgreSQL refuses it."""
    using, write, content = store(server.url, location), Write("a", author(1)), io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), content)

    def zombie() -> None:
        def sleep(phase: Phase) -> None:
            if phase is Phase.CHECKED:
                store(server.url, location).fence(author(2))

        using._watch = sleep
        with using.stage(write) as folder:
            FolderStorage(location).put(f"{folder}/day=1/part-0.parquet", content.getvalue())
            using.publish(write, COLUMNS, Mode.APPEND)

    with pytest.raises(ConflictError, match=r"attempt 1 of job default\.sc\.w\.1\.1 was fenced by attempt 2"):
        await beside(zombie)
    assert await seen(server, location) == {}
    with pytest.raises(ConflictError, match="was fenced by attempt 2"):
        await beside(lambda: store(server.url, location).fence(author(1)))


async def test_a_commit_that_waits_for_the_fence_of_its_successor_is_refused(server: Server) -> None:
    """The statement began before the fence was visible."""
    connection = await asyncpg.connect(server.services.settings.database_url)
    pool = await asyncpg.create_pool(server.services.settings.database_url, min_size=1, max_size=1)
    commits = FileSetCommitStore(pool)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO file_set_epochs VALUES ('default.flights', 'j', 2)")
        waiting = asyncio.create_task(commits.add("default.flights", "x://", "a", "m", JobEpoch("j", 1)))
        async with asyncio.timeout(30):
            while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                pass
        await transaction.commit()
        with pytest.raises(AttemptFencedError):
            await waiting
    finally:
        await connection.close()
        found = await commits.list_after("default.flights", 0, limit=10)
        await pool.close()
    assert found == []

"""A real API on PostgreSQL, and what tests of tables need of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from streamsched.api.app import make_api
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.codec import event as codec
from streamsched.config import Settings
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.emit import Emitted, Emitter, EventDraft
from streamsched.emit.bookmarks import BookmarkClient
from streamsched.emit.draft import complete_event
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import TopicPartition
from streamsched.process.cancellation import cancel
from streamsched.roles.api import api_services
from streamsched.roles.services import Services, open_services
from streamsched.spark.context import RunContext
from streamsched.spark.tables.table_source import TableSource
from streamsched.spark.tables.watcher import First, Watcher, WatchResult
from tests.support.api_routes import api_routes

FLIGHTS = DatasetRef("default", "flights")
NOW = datetime(2026, 1, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Server:
    """The API, and the log behind it."""

    url: str
    services: Services

    async def events(self) -> list[Event]:
        """The events in the log, repeated ones too."""
        shards = range(self.services.layout.unkeyed_partitions)
        reader = await self.services.broker.reader({TopicPartition(PARTITIONS, shard): 0 for shard in shards})
        found: list[Event] = []
        while chunks := await reader.read(max_records=1000, timeout=0.2):
            found += [
                codec.decode(record.value or b"", fallback_id="", fallback_time=NOW)
                for chunk in chunks
                for record in chunk.records
            ]
        await reader.close()
        return found

    async def look(self, source: TableSource, first: First = First.START) -> WatchResult:
        """One check by a watcher."""

        def run_once() -> WatchResult:
            with Emitter(self.url, source="test") as emitter:
                bookmarks = BookmarkClient(self.url, {})
                return Watcher(FLIGHTS, source, bookmarks=bookmarks, emitter=emitter, first=first).run_once()

        return await asyncio.to_thread(run_once)


@pytest.fixture
async def server(database: str) -> AsyncIterator[Server]:
    async with open_services(Settings.from_env({}, database_url=database, shards=2, api_access="open")) as services:
        bound = bind("127.0.0.1", 0)
        started = asyncio.Event()
        running = asyncio.create_task(
            HttpServer(make_api(api_services(services), api_routes()), bound, started=started.set).run()  # type: ignore[arg-type]
        )
        await started.wait()
        yield Server(url_of(bound), services)
        await cancel(running)
        bound.close()


class RecordingEmitter:
    """Keeps what is emitted."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, *what: EventDraft | Event) -> Emitted:
        self.events += [complete_event(each, source="test", now=NOW) for each in what]
        return Emitted(len(what))


class BookmarksInMemory:
    """One bookmark."""

    def __init__(self) -> None:
        self.value, self.revision = "", 0

    def get(self, name: str) -> tuple[str, int]:
        return self.value, self.revision

    def set(self, name: str, value: str, revision: int) -> int:
        assert revision == self.revision
        self.value, self.revision = value, revision + 1
        return self.revision


def emitted(source: TableSource, position: str = "") -> list[Event]:
    """The events of the commits after a position."""
    bookmarks, emitter = BookmarksInMemory(), RecordingEmitter()
    bookmarks.value, bookmarks.revision = position, 1
    Watcher(FLIGHTS, source, bookmarks=bookmarks, emitter=emitter).run_once()
    return emitter.events


def run_of(events: Sequence[Event]) -> RunContext:
    """A run that these events started."""
    return RunContext(
        "default.air.join.1.r1",
        ProgramRef("default", "air", "join"),
        job_id="default.air.join.1",
        schedule=ScheduleRef("default", "air", "join"),
        contributions=(Contribution("partitions", len(events), tuple(events)),),
    )

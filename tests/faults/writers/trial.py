"""Writers of a file set, or watchers of a table, that are killed at random moments.

`s3`, `file` and `plain`: two processes write one file set on a real S3 server, in a folder, or in a folder without
"create if absent", whose commits are rows behind the API; one of them is killed by SIGKILL, again and again, while a
reader reads. `delta` and `iceberg`: a table is written while its watcher is killed. Events go to a `streamsched dev`,
where a schedule counts the partitions of every commit.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

from streamsched.codec import event as codec
from streamsched.config import Settings
from streamsched.domain.events.event import PartitionsAdded
from streamsched.emit.bookmarks import BookmarkClient
from streamsched.emit.client import Emitter
from streamsched.log.topics import PARTITIONS
from streamsched.roles.services import open_services
from streamsched.spark.storage import FolderStorage
from streamsched.spark.tables.watcher import First, Watcher
from streamsched.store.server.embedded_server import start_server
from tests.faults.judges.file_sets import Rows, judge_commits
from tests.faults.judges.log import ends_of, records_up_to
from tests.faults.writers.dataset import DatasetTrial
from tests.faults.writers.processes import DATASET, DAYS, DeltaWriter, IcebergWriter, half_commits, now, watch, write
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site

_DIGEST: Final = re.compile(r"^(delta-\d+|iceberg-\d+)-.*$")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    trial = WatcherTrial if asked.variant in ("delta", "iceberg") else WriterTrial
    yield Site(lambda _: trial(asked))


class CommitTrial(DatasetTrial):
    """Commits that must be visible as a whole, and have one event each.

    Attributes:
        confirmed: the commits that were confirmed to their writers.
        seen_half: what a reader found wrong meanwhile.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._span = 1.0
        self.confirmed: list[str] = []
        self.seen_half: list[str] = []
        self.visible: Mapping[str, Rows] = {}

    async def judge(self) -> Judgement:
        counted = await self.counted(sum(len(rows) for rows in self.visible.values()))
        return judge_commits(
            visible=self.visible,
            confirmed=self.confirmed,
            events=await self._events(),
            counted=counted,
            seen_half=self.seen_half,
        )

    def counts(self) -> Counts:
        return {"kills": self.asked.n, "commits": len(self.visible)}

    def kill_within_span(self, process: Any) -> None:
        """At a random moment."""
        time.sleep(self.chance.uniform(0, self._span))
        process.kill()
        process.join()

    def set_span(self, seconds: float, *, least: float, most: float) -> None:
        """About how long what is killed would take."""
        self._span = max(least, min(most, seconds))

    async def _events(self) -> list[tuple[str, Rows]]:
        """The events in the log."""
        found: list[tuple[str, Rows]] = []
        async with open_services(
            Settings.from_env({}, database_url=start_server(self.dev.process.state / "postgres").url)
        ) as services:
            broker = services.broker
            async for _, record in records_up_to(broker, await ends_of(broker, PARTITIONS), {}):
                event = codec.decode(record.value or b"", fallback_id="", fallback_time=now())
                if isinstance(event.fact, PartitionsAdded) and event.fact.dataset == DATASET:
                    rows = {part.key: part.rows or 0 for part in event.fact.partitions}
                    found.append((_DIGEST.sub(r"\1", event.id), rows))
        return found


class WriterTrial(CommitTrial):
    """Two writers of a file set, one of them killed, and a reader."""

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        stopped: list[bool] = []
        reader = threading.Thread(target=lambda: self.seen_half.extend(_caught(half_commits(self.place, stopped))))
        with self.process(write, self.place, "whole", self.chance.randint(0, 1 << 30)) as (whole, self._heard):
            reader.start()
            try:
                yield
                self._heard.send(0)
                whole.join()
            finally:
                stopped.append(True)
                reader.join()
        self._look()

    async def faults(self) -> AsyncIterator[str]:
        for number in range(self.asked.n):
            with self.process(write, self.place, f"killed{number}", number) as (killed, last_words):
                last_words.send(1000)
                began = time.monotonic()
                self._heard.send(2)
                self.kill_within_span(killed)
                self.confirmed += _rest(last_words)
            self.confirmed += _until_done(self._heard)
            self.set_span(0.5 * self._span + 0.75 * (time.monotonic() - began), least=0.2, most=10.0)
            yield "writer killed"

    def _look(self) -> None:
        """What is visible in the end."""
        last, place = self.place.file_set(), self.place
        late = sum(not last._store.is_announced(each.commit) for each in last._store.manifests())
        last.settle()
        manifests = last._store.manifests()
        self.visible = {each.commit: {part.key: part.rows for part in each.partitions} for each in manifests}
        mine = sum(name.startswith("killed") for name in self.visible)
        files = FolderStorage(place.location, place.options).files("_data")
        left = sum(each.path.endswith(".parquet") for each in files) - len(DAYS) * len(self.visible)
        sys.stderr.write(f"of killed writers: {mine} commits, {late} without event, {left} files without commit\n")
        if len(self.visible) != len(manifests):
            self.seen_half.append("a commit id is visible twice")


class WatcherTrial(CommitTrial):
    """A table that is written while its watcher is killed; its commits, by the id of the event without digest."""

    async def faults(self) -> AsyncIterator[str]:
        table = (DeltaWriter if self.store == "delta" else IcebergWriter)(self.place, self.chance)
        table.step()
        for number in range(self.asked.n):
            with self.process(watch, self.place) as (killed, _):
                writing = threading.Thread(target=lambda: [table.step() for _ in range(4)])
                writing.start()
                began = time.monotonic()
                self.kill_within_span(killed)
                writing.join()
                self.set_span(1.5 * (time.monotonic() - began), least=0.3, most=3.0)
            if number % 10 == 9:
                self._look()
            yield "watcher killed"
        self._look()
        self.visible, self.confirmed = dict(table.commits), list(table.commits)

    def _look(self) -> None:
        """A watcher that is not killed."""
        place = self.place
        with Emitter(place.url, source="watcher", token=place.environ["STREAMSCHED_TOKEN"]) as emitter:
            bookmarks = BookmarkClient(place.url, place.environ)
            Watcher(DATASET, place.source(), bookmarks=bookmarks, emitter=emitter, first=First.START).run_once()


def _caught(findings: Any) -> list[str]:
    """What a reader found; an error of it is a finding too."""
    try:
        return list(findings)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is a reader's failure
        return [f"a reader failed: {type(exc).__name__}: {exc}"]


def _rest(said: Connection) -> list[str]:
    """What a process had said before it was killed."""
    found: list[str] = []
    try:
        while said.poll():
            found.append(said.recv())
    except (EOFError, OSError):
        pass
    return [each for each in found if each != "done"]


def _until_done(said: Connection) -> list[str]:
    found: list[str] = []
    while said.poll(300):
        if (word := said.recv()) == "done":
            return found
        found.append(word)
    raise AssertionError("the writer that is not killed does not commit")

"""Writers of a file set, or watchers of a table, that are killed at random moments.

    python -m tests.faults.writers --store s3 --kills 50 --seed 1
    python -m tests.faults.writers --store delta --kills 50 --seed 1

`s3`, `file` and `plain`: two processes write one file set on a real S3 server, in a folder, or in a folder without
"create if absent", whose commits are rows behind the API; one of them is killed by SIGKILL, again and again, while a
reader reads. `delta` and `iceberg`: a table is written while its watcher is killed. Events go
to a `streamsched dev`, where a schedule counts the partitions of every commit. The last line:
`kills 50 commits N half 0 lost 0 doubled 0`.

    python -m tests.faults.writers --store delta --zombies 200 --seed 1

Attempts of jobs are stopped in the middle of a write, replaced, and go on (`zombies`), on each store and in a `folder`.
The last line: `jobs 200 replaced N zombies 0 twice 0 missing 0 events 0`. With `--crashes 200` the first attempts are
killed after their commit, before their run has ended. With `--spark` the attempts write frames of real Spark, each in a
session of its process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from compose.lakes.distribution import cache_folder, jars
from compose.ports import free_port
from streamsched.codec import event as codec
from streamsched.config import Settings
from streamsched.domain.events.event import PartitionsAdded
from streamsched.emit.bookmarks import BookmarkClient
from streamsched.emit.client import Emitter
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import TopicPartition
from streamsched.roles.services import open_services
from streamsched.spark.storage import FolderStorage, StoredFile
from streamsched.spark.tables.watcher import First, Watcher
from streamsched.store.server.embedded_server import start_server, stop_server
from tests.faults.writers.attempts import make_table, serve, settle, visible_rows
from tests.faults.writers.judge import Rows, Verdict, judge
from tests.faults.writers.processes import (
    DATASET,
    DAYS,
    DeltaWriter,
    IcebergWriter,
    Place,
    half_commits,
    now,
    watch,
    write,
)
from tests.faults.writers.zombies import Sleeper, Slept, Worker, ZombieVerdict, crash, judge_zombies
from tests.integration.tables.object_storage import BUCKET, s3_server
from tests.support.dev_process import DevProcess

STORES: Final = ("s3", "file", "plain", "folder", "delta", "iceberg")
_APP: Final = """
from streamsched import App, partitions

app = App("trial")
every = partitions("flights", 1_000_000, distinct=False)
app.schedule("count", app.bash("nothing", "true"), when=every)
"""
_DIGEST: Final = re.compile(r"^(delta-\d+|iceberg-\d+)-.*$")


class Trial:
    """One installation, one dataset, and the kills."""

    def __init__(self, folder: Path, store: str, seed: int, *, spark: bool = False) -> None:
        self._folder, self._store, self._spark = folder, store, spark
        self._chance = random.Random(seed)
        self._dev = DevProcess(folder)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.faults.writers.attempts", "s3fs", "fsspec.implementations.local"])
        self._span = 1.0

    def run(self, kills: int) -> tuple[int, Verdict]:
        """The number of visible commits, and the verdict."""
        with ExitStack() as stack:
            place = self._place(stack)
            (self._folder / "app.py").write_text(_APP)
            said = self._dev.run("deploy", "app.py")
            assert said.code == 0, said
            if self._store in ("s3", "file", "plain"):
                visible, confirmed, seen_half = self._writers(place, kills)
            else:
                visible, confirmed, seen_half = *self._watchers(place, kills), []
            counted = self._counted(sum(len(rows) for rows in visible.values()))
            events = asyncio.run(self._events())
        return len(visible), judge(
            visible=visible, confirmed=confirmed, events=events, counted=counted, seen_half=seen_half
        )

    def run_attempts(self, jobs: int, *, killed: bool) -> tuple[int, ZombieVerdict]:
        """The number of first attempts that were replaced while they slept, or killed after their commit, and the
        verdict.
        """
        with ExitStack() as stack:
            place = self._place(stack)
            (self._folder / "app.py").write_text(_APP)
            said = self._dev.run("deploy", "app.py")
            assert said.code == 0, said
            make_table(place)
            second = Worker(*stack.enter_context(self._process(serve, place)))
            names = [f"default.trial.job.1.{number}" for number in range(1, jobs + 1)]
            slept = self._crashes(place, names, second) if killed else self._zombies(place, names, second)
            settle(place)
            counted = self._counted(jobs * len(DAYS))
            rows = visible_rows(place)
            found = list(zip(rows["job"].to_pylist(), rows["attempt"].to_pylist(), strict=True))
        touched = sum(each.replaced or each.ends[0] == "killed" for each in slept)
        return touched, judge_zombies(slept, found, counted)

    def _zombies(self, place: Place, names: Sequence[str], second: Worker) -> list[Slept]:
        sleeper = Sleeper(self._store, self._chance)
        with self._process(serve, place) as made:
            first = Worker(*made)
            return [sleeper.trial(name, first, second) for name in names]

    def _crashes(self, place: Place, names: Sequence[str], second: Worker) -> list[Slept]:
        found: list[Slept] = []
        for name in names:
            with self._process(serve, place) as made:
                found.append(crash(name, self._chance, self._store, Worker(*made), second))
        return found

    def _place(self, stack: ExitStack) -> Place:
        """Starts what the trial needs."""
        port = free_port()
        self._dev.start("--port", str(port))
        stack.callback(stop_server, self._dev.state / "postgres")
        stack.callback(self._dev.close)
        environ = {"STREAMSCHED_EMIT_URL": f"http://127.0.0.1:{port}", "STREAMSCHED_TOKEN": self._dev.token}
        found = self._empty_place(stack, environ)
        return replace(found, spark=_spark_conf(found)) if self._spark else found

    def _empty_place(self, stack: ExitStack, environ: dict[str, str]) -> Place:
        match self._store:
            case "s3":
                return Place("s3", f"s3://{BUCKET}/flights", stack.enter_context(s3_server()), environ)
            case "file" | "plain":
                options = {"auto_mkdir": True} if self._store == "plain" else {}
                return Place(self._store, f"{self._store}://{self._folder}/lake/flights", options, environ)
            case "folder":
                return Place("folder", str(self._folder / "lake" / "flights"), {}, environ)
            case "delta":
                return Place("delta", str(self._folder / "flights"), {}, environ)
            case _:
                uri, warehouse = f"sqlite:///{self._folder}/catalog.db?timeout=60", f"file://{self._folder}/lake"
                return Place("iceberg", "db.flights", {"type": "sql", "uri": uri, "warehouse": warehouse}, environ)

    def _writers(self, place: Place, kills: int) -> tuple[dict[str, Rows], list[str], list[str]]:
        """Two writers, one of them killed; the commits, those confirmed to their writers, and what a
        reader found.
        """
        stopped: list[bool] = []
        seen_half: list[str] = []
        reader = threading.Thread(target=lambda: seen_half.extend(_caught(half_commits(place, stopped))))
        confirmed: list[str] = []
        with self._process(write, place, "whole", self._chance.randint(0, 1 << 30)) as (whole, heard):
            reader.start()
            try:
                for number in range(kills):
                    with self._process(write, place, f"killed{number}", number) as (killed, last_words):
                        last_words.send(1000)
                        began = time.monotonic()
                        heard.send(2)
                        time.sleep(self._chance.uniform(0, self._span))
                        killed.kill()
                        killed.join()
                        confirmed += _rest(last_words)
                    confirmed += _until_done(heard)
                    self._span = max(0.2, min(10.0, 0.5 * self._span + 0.75 * (time.monotonic() - began)))
                heard.send(0)
                whole.join()
            finally:
                stopped.append(True)
                reader.join()
        last = place.file_set()
        late = sum(not last._store.is_announced(each.commit) for each in last._store.manifests())
        last.settle()
        manifests = last._store.manifests()
        visible = {each.commit: {part.key: part.rows for part in each.partitions} for each in manifests}
        mine = sum(name.startswith("killed") for name in visible)
        left = sum(each.path.endswith(".parquet") for each in self._files(place)) - len(DAYS) * len(visible)
        sys.stderr.write(f"of killed writers: {mine} commits, {late} without event, {left} files without commit\n")
        if len(visible) != len(manifests):
            seen_half.append("half: a commit id is visible twice")
        return visible, confirmed, seen_half

    def _files(self, place: Place) -> list[StoredFile]:
        return FolderStorage(place.location, place.options).files("_data")

    def _watchers(self, place: Place, kills: int) -> tuple[dict[str, Rows], list[str]]:
        """A table that is written while its watcher is killed; its commits, by the id of the event without digest."""
        table = (DeltaWriter if self._store == "delta" else IcebergWriter)(place, self._chance)
        table.step()
        for number in range(kills):
            with self._process(watch, place) as (killed, _):
                writing = threading.Thread(target=lambda: [table.step() for _ in range(4)])
                writing.start()
                began = time.monotonic()
                time.sleep(self._chance.uniform(0, self._span))
                killed.kill()
                killed.join()
                writing.join()
                self._span = max(0.3, min(3.0, 1.5 * (time.monotonic() - began)))
            if number % 10 == 9:
                self._look(place)
        self._look(place)
        return dict(table.commits), list(table.commits)

    def _look(self, place: Place) -> None:
        """A watcher that is not killed."""
        with Emitter(place.url, source="watcher", token=place.environ["STREAMSCHED_TOKEN"]) as emitter:
            bookmarks = BookmarkClient(place.url, place.environ)
            Watcher(DATASET, place.source(), bookmarks=bookmarks, emitter=emitter, first=First.START).run_once()

    @contextmanager
    def _process(self, target: Any, *arguments: Any) -> Any:
        """A process that has said `ready`, and the connection to it."""
        ours, theirs = self._context.Pipe()
        process: BaseProcess = self._context.Process(target=target, args=(*arguments, theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            assert ours.poll(120), "the process does not begin"
            assert ours.recv() == "ready"
            yield process, ours
        finally:
            process.kill()
            process.join()
            ours.close()

    def _counted(self, wanted: int) -> int:
        """The partitions that the schedule has counted, as soon as they are enough; at most a minute later."""
        deadline = time.monotonic() + 60
        while True:
            found = json.loads(self._dev.run("schedule", "show", "trial.count", "-o", "json").out)
            counted = int((found["progress"] or {}).get("have", 0))
            if counted >= wanted or time.monotonic() > deadline:
                return counted
            time.sleep(0.5)

    async def _events(self) -> list[tuple[str, Rows]]:
        """The events in the log."""
        found: list[tuple[str, Rows]] = []
        async with open_services(
            Settings.from_env({}, database_url=start_server(self._dev.state / "postgres").url)
        ) as services:
            shards = range(services.layout.unkeyed_partitions)
            reader = await services.broker.reader({TopicPartition(PARTITIONS, shard): 0 for shard in shards})
            while chunks := await reader.read(max_records=1000, timeout=1.0):
                for record in (record for chunk in chunks for record in chunk.records):
                    event = codec.decode(record.value or b"", fallback_id="", fallback_time=now())
                    if isinstance(event.fact, PartitionsAdded) and event.fact.dataset == DATASET:
                        rows = {part.key: part.rows or 0 for part in event.fact.partitions}
                        found.append((_DIGEST.sub(r"\1", event.id), rows))
            await reader.close()
        return found


def _spark_conf(place: Place) -> dict[str, str]:
    """Settings of a small session that writes into the place."""
    found = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.host": "127.0.0.1"}
    if place.store == "s3":
        s3a = {
            "endpoint": place.options["endpoint_url"],
            "endpoint.region": place.options["client_kwargs"]["region_name"],
            "access.key": place.options["key"],
            "secret.key": place.options["secret"],
            "path.style.access": "true",
        }
        found |= {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
        found["spark.jars"] = ",".join(str(jar) for jar in jars("s3", cache_folder(os.environ)))
    return found


def _caught(findings: Any) -> list[str]:
    """What a reader found; an error of it is a finding too."""
    try:
        return list(findings)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is a reader's failure
        return [f"half: a reader failed: {type(exc).__name__}: {exc}"]


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


def run(folder: Path, *, store: str, kills: int, seed: int) -> tuple[str, bool]:
    """One trial in an empty folder; the closing line, and whether it is clean."""
    commits, verdict = Trial(folder, store, seed).run(kills)
    line = f"kills {kills} commits {commits} {verdict}"
    return (line if verdict.clean else f"{line} {verdict.words[:10]}"), verdict.clean


def run_attempts(
    folder: Path, *, store: str, jobs: int, seed: int, killed: bool = False, spark: bool = False
) -> tuple[str, bool]:
    """As `run`, of attempts that sleep, or are killed after their commit."""
    touched, verdict = Trial(folder, store, seed, spark=spark).run_attempts(jobs, killed=killed)
    line = f"jobs {jobs} {'killed' if killed else 'replaced'} {touched} {verdict}"
    return (line if verdict.clean else f"{line} {verdict.words[:10]}"), verdict.clean


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=STORES, default="s3")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--zombies", type=int, default=0, help="so many attempts that sleep, in place of kills")
    parser.add_argument("--crashes", type=int, default=0, help="so many attempts that are killed after their commit")
    parser.add_argument("--spark", action="store_true", help="attempts write frames of real Spark")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    jobs = asked.zombies or asked.crashes
    if (asked.store == "folder" or asked.spark) and not jobs:
        parser.error("--store folder and --spark are for --zombies and --crashes")
    if asked.store == "plain" and asked.spark:
        parser.error("Spark does not know the scheme plain://, which is of this trial")
    with tempfile.TemporaryDirectory(prefix="ss-writers-", ignore_cleanup_errors=True) as folder:
        if jobs:
            line, well = run_attempts(
                Path(folder),
                store=asked.store,
                jobs=jobs,
                seed=asked.seed,
                killed=bool(asked.crashes),
                spark=asked.spark,
            )
        else:
            line, well = run(Path(folder), store=asked.store, kills=asked.kills, seed=asked.seed)
    sys.stdout.write(f"{line}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())

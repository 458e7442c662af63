"""Watchers that are killed at any moment, while a table is written: each commit is one event."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsched.spark.tables.delta_source import DeltaSource
from streamsched.spark.tables.iceberg_source import IcebergSource
from tests.integration.tables.conftest import Server

pytestmark = [pytest.mark.postgres, pytest.mark.torture]

#: Checks once, and kills itself at the n-th phase.
WATCHER = """
import os, signal, sys
from streamsched.domain.names import DatasetRef
from streamsched.emit import Emitter
from streamsched.emit.bookmarks import BookmarkClient
from streamsched.spark.tables.delta_source import DeltaSource
from streamsched.spark.tables.iceberg_source import IcebergSource
from streamsched.spark.tables.watcher import First, Watcher

url, form, place, options, left = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4]), int(sys.argv[5])
source = DeltaSource(place) if form == "delta" else IcebergSource(place, catalog="lake", options=options)

def reached(_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with Emitter(url, source="test") as emitter:
    Watcher(DatasetRef("default", "flights"), source, bookmarks=BookmarkClient(url, {}), emitter=emitter,
            first=First.START, reached=reached).run_once()
"""


def delta(folder: Path) -> tuple[str, dict[str, str], Callable[[int], None]]:
    import pyarrow as pa
    from deltalake import write_deltalake

    place = str(folder / "flights")

    def write(number: int) -> None:
        write_deltalake(place, pa.table({"n": [number], "day": [str(number)]}), partition_by=["day"], mode="append")

    return place, {}, write


def iceberg(folder: Path) -> tuple[str, dict[str, str], Callable[[int], None]]:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    options = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    catalog = load_catalog("lake", **options)
    catalog.create_namespace("db")
    table: Any = catalog.create_table("db.flights", schema=pa.schema([("n", pa.int64())]))

    def write(number: int) -> None:
        table.append(pa.table({"n": [number]}))

    return "db.flights", options, write


async def killed(server: Server, form: str, folder: Path, *, commits: int, seed: int) -> None:
    chance = random.Random(seed)
    place, options, write = {"delta": delta, "iceberg": iceberg}[form](folder)
    await asyncio.to_thread(write, 0)
    writing = asyncio.create_task(asyncio.to_thread(lambda: [write(number) for number in range(1, commits)]))
    kills = 0
    while not writing.done() or kills < commits // 3:
        command = [sys.executable, "-c", WATCHER, server.url, form, place, repr(options), str(chance.randint(1, 7))]
        ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        kills += ended.returncode != 0
        if ended.returncode == 0 and writing.done():
            break
    await writing
    source = DeltaSource(place) if form == "delta" else IcebergSource(place, catalog="lake", options=options)
    await server.look(source)

    events = await server.events()
    wanted = [step.commit.id for step in source.steps_after("") if step.commit is not None]
    assert len(wanted) == commits
    assert list(dict.fromkeys(each.id for each in events)) == wanted  # in the order of the commits, none missing
    assert len({repr((each.id, each.fact, each.time)) for each in events}) == commits  # a repeat is equal
    assert kills > 0


@pytest.mark.parametrize("form", ["delta", "iceberg"])
async def test_a_watcher_killed_a_few_times_announces_each_commit_once(
    server: Server, form: str, tmp_path: Path
) -> None:
    await killed(server, form, tmp_path, commits=6, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("form", ["delta", "iceberg"])
async def test_a_watcher_killed_many_times_announces_each_commit_once(
    server: Server, form: str, tmp_path: Path
) -> None:
    await killed(server, form, tmp_path, commits=24, seed=2)

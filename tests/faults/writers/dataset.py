"""Where writers, watchers and attempts write: one dataset of one installation, on a store that the trial starts."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from typing import Any, Final

from compose.lakes.distribution import cache_folder, jars
from tests.faults.sites.dev_site import DevSite
from tests.faults.writers.processes import Place
from tests.integration.tables.object_storage import BUCKET, s3_server
from tests.trial import Asked, Trial

_APP: Final = """
from streamsched import App, partitions

app = App("trial")
every = partitions("flights", 1_000_000, distinct=False)
app.schedule("count", app.bash("nothing", "true"), when=every)
"""


class DatasetTrial(Trial):
    """A `streamsched dev`, a schedule that counts the partitions of every commit, and an empty dataset.

    Attributes:
        place: of the dataset, while the site is there.
    """

    place: Place

    def __init__(self, asked: Asked, *, spark: bool = False) -> None:
        self.asked, self.store, self._spark = asked, asked.variant, spark
        self.chance = random.Random(asked.seed)
        self._folder = asked.folder
        self.dev = DevSite(asked.folder)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.faults.writers.attempts", "s3fs", "fsspec.implementations.local"])

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self.dev)
            environ = {"STREAMSCHED_EMIT_URL": self.dev.url, "STREAMSCHED_TOKEN": self.dev.process.token}
            place = self._empty_place(stack, environ)
            self.place = replace(place, spark=_spark_conf(place)) if self._spark else place
            self.dev.deploy(_APP)
            yield

    def _empty_place(self, stack: ExitStack, environ: dict[str, str]) -> Place:
        match self.store:
            case "s3":
                return Place("s3", f"s3://{BUCKET}/flights", stack.enter_context(s3_server()), environ)
            case "file" | "plain":
                options = {"auto_mkdir": True} if self.store == "plain" else {}
                return Place(self.store, f"{self.store}://{self._folder}/lake/flights", options, environ)
            case "folder":
                return Place("folder", str(self._folder / "lake" / "flights"), {}, environ)
            case "delta":
                return Place("delta", str(self._folder / "flights"), {}, environ)
            case _:
                uri, warehouse = f"sqlite:///{self._folder}/catalog.db?timeout=60", f"file://{self._folder}/lake"
                return Place("iceberg", "db.flights", {"type": "sql", "uri": uri, "warehouse": warehouse}, environ)

    @contextmanager
    def process(self, target: Any, *arguments: Any) -> Any:
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

    async def counted(self, wanted: int) -> int:
        """The partitions that the schedule has counted, as soon as they are enough; at most a minute later."""
        deadline = time.monotonic() + 60
        while True:
            found = json.loads(self.dev.process.run("schedule", "show", "trial.count", "-o", "json").out)
            counted = int((found["progress"] or {}).get("have", 0))
            if counted >= wanted or time.monotonic() > deadline:
                return counted
            await asyncio.sleep(0.5)


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

"""An acceptance drive through a local cluster: a deployment, events, jobs, kills, more events, more jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import uuid4

import httpx

from compose.cluster.deployment import deploy
from compose.cluster.errors import DriveFailedError
from compose.cluster.local_cluster import LocalCluster

#: So many schedules that each shard has several.
SCHEDULES: Final = 12
#: What is killed.
KILLED: Final = ("worker-1", "launcher-1")
_PATIENCE_S: Final = 60.0
_SPARK_PATIENCE_S: Final = 240.0

_APP: Final = f"""
from streamsched import App, event, partitions

app = App("drive")
hello = app.bash("hello", "echo $STREAMSCHED_RUN_ID")
for number in range({SCHEDULES}):
    app.schedule(f"two-{{number}}", hello, when=partitions(f"landed_{{number}}", 2))
"""
_SPARK: Final = """
count = app.spark("count", main="count.py")
app.schedule("spark", count, when=event("count"))
"""
_COUNT: Final = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print(spark.sparkContext.master, spark.range(1000).count())
"""


async def drive(cluster: LocalCluster, say: Callable[[str], None]) -> None:
    """Says what it did, a line each.

    Raises:
        DriveFailedError: something is not as it must be.
    """
    access = {"Authorization": f"Bearer {cluster.token}"}
    async with httpx.AsyncClient(base_url=cluster.api, headers=access, timeout=20) as client:
        await _Drive(cluster, client, say).run()


class _Drive:
    def __init__(self, cluster: LocalCluster, client: httpx.AsyncClient, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._client = client
        self._say = say

    async def run(self) -> None:
        await self._deploy()
        await self._announce(1)
        seconds = await self._until_completed(_jobs(1))
        self._say(f"{2 * SCHEDULES} events, {SCHEDULES} jobs: all completed, each once, after {seconds:.1f} s")
        for name in KILLED:
            self._cluster.away.add(name)
            self._cluster.parts[name].kill()
        self._say(f"killed {' and '.join(KILLED)}")
        await self._announce(2)
        seconds = await self._until_completed(_jobs(1) + _jobs(2))
        self._say(f"{2 * SCHEDULES} events, {SCHEDULES} jobs: all completed, each once, after {seconds:.1f} s")
        for name in KILLED:
            self._cluster.parts[name].start()
        await self._cluster.until_healthy()
        self._say(f"started {' and '.join(KILLED)} again: all healthy")
        if self._cluster.with_spark:
            await self._spark()
        if "prometheus" in self._cluster.parts:
            await self._prometheus()

    async def _deploy(self) -> None:
        folder = self._cluster.folder.path
        with_spark = self._cluster.with_spark
        (folder / "drive.py").write_text(_APP + (_SPARK if with_spark else ""))
        if with_spark:
            (folder / "count.py").write_text(_COUNT)
        output = await deploy(self._cluster, folder, "drive.py")
        self._say(output.strip().splitlines()[-1])

    async def _announce(self, turn: int) -> None:
        """Two partitions for every schedule."""
        events = [
            _event("partitions.added", {"dataset": f"default.landed_{number}", "partitions": [f"n={turn}-{part}"]})
            for number in range(SCHEDULES)
            for part in range(2)
        ]
        await self._emit(events)

    async def _emit(self, events: Sequence[dict[str, Any]]) -> None:
        answer = await self._client.post("/v1/events", json=events)
        if answer.status_code != httpx.codes.ACCEPTED or answer.json()["accepted"] != len(events):
            raise DriveFailedError(f"events were not accepted: {answer.status_code} {answer.text}")

    async def _until_completed(self, jobs: Sequence[str], within: float = _PATIENCE_S) -> float:
        """The seconds until each of these jobs has exactly one completed run, and no others have any."""
        began = time.monotonic()
        while True:
            answer = await self._client.get("/v1/runs", params={"app": "default.drive", "limit": 1000})
            runs = answer.raise_for_status().json()["runs"]
            completed = sorted(run["job"] for run in runs if run["state"] == "COMPLETED")
            if completed == sorted(jobs):
                return time.monotonic() - began
            failed = [f"{run['id']} {run['state']}: {run['reason']}" for run in runs if run["state"] in _FAILED]
            if failed or set(completed) - set(jobs) or len(completed) > len(set(completed)):
                raise DriveFailedError(f"completed: {completed}; failed: {failed}; expected: {sorted(jobs)}")
            if time.monotonic() - began > within:
                missing = sorted(set(jobs) - set(completed))
                raise DriveFailedError(f"not completed within {within:g} s: {missing}; runs: {runs}")
            await asyncio.sleep(0.2)

    async def _spark(self) -> None:
        await self._emit([_event("custom", {"name": "default.count"})])
        job = "default.drive.spark.1.1"
        seconds = await self._until_completed([*_jobs(1), *_jobs(2), job], within=_SPARK_PATIENCE_S)
        log = (await self._client.get(f"/v1/runs/{job}.r1/logs")).text
        master = self._cluster.environ["STREAMSCHED_SPARK_MASTER"]
        if f"{master} 1000" not in log:
            raise DriveFailedError(f"the Spark job did not run on {master}:\n{log[-2000:]}")
        self._say(f"a Spark job completed on {master} after {seconds:.0f} s")

    async def _prometheus(self) -> None:
        """Waits until it has scraped every role."""
        url = self._cluster.parts["prometheus"].where
        began = time.monotonic()
        async with httpx.AsyncClient(base_url=url, timeout=10) as client:
            while True:
                targets = (await client.get("/api/v1/targets")).json()["data"]["activeTargets"]
                down = {each["labels"]["part"]: each["lastError"] for each in targets if each["health"] != "up"}
                if targets and not down:
                    break
                if time.monotonic() - began > _PATIENCE_S:
                    raise DriveFailedError(f"Prometheus cannot scrape: {down}")
                await asyncio.sleep(0.2)
        self._say(f"Prometheus scrapes {len(targets)} processes")


_FAILED: Final = frozenset({"FAILED", "KILLED", "LOST"})


def _jobs(turn: int) -> list[str]:
    return [f"default.drive.two-{number}.1.{turn}" for number in range(SCHEDULES)]


def _event(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"id": uuid4().hex, "source": "drive", "type": kind, "data": data}

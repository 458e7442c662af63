"""Workers share the shards of a Kafka, as processes: cut off from PostgreSQL, stopped, joined and sent home. Whatever
happens, every event is one launch.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest

from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.store.connections import open_pool
from tests.faults.processes.command import environ, role
from tests.faults.processes.placed import PlacedProcesses
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule, schedule_name

pytestmark = [pytest.mark.torture, pytest.mark.postgres, pytest.mark.kafka, pytest.mark.timeout(500)]

SHARDS, SCHEDULES = 4, 12


class Wire:
    """A way to PostgreSQL that can be cut."""

    def __init__(self, far: Path, near: Path) -> None:
        self._far = far / ".s.PGSQL.5432"
        self._near = near / ".s.PGSQL.5432"
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()

    async def mend(self) -> None:
        self._server = await asyncio.start_unix_server(self._joined, self._near)

    def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        self._near.unlink(missing_ok=True)
        for end in list(self._ends):
            end.transport.abort()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._far)
        self._ends |= {writer, far_writer}
        await asyncio.gather(self._carried(reader, far_writer), self._carried(far_reader, writer))
        self._ends -= {writer, far_writer}

    async def _carried(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                to.write(data)
                await to.drain()
        except OSError:
            pass
        finally:
            to.close()


@dataclass(slots=True)
class Site:
    """Workers by their names, and what they are to do."""

    cluster: ShardCluster
    pool: asyncpg.Pool
    workers: PlacedProcesses
    rounds: int = 0

    def hire(self, name: str, database: str) -> None:
        self.workers.start(name, role("worker"), database_url=database)

    def said(self, name: str, action: str) -> int:
        """How often that worker logged it."""
        lines = (self.workers.folder / f"{name}.log").read_bytes().splitlines()
        reported: list[dict[str, Any]] = [orjson.loads(line) for line in lines if line.startswith(b"{")]
        return sum(line["action"] == action for line in reported)

    async def judged(self) -> None:
        """One more event for each schedule; every one of all rounds is one launch, in the end and in order."""
        await self.cluster.emit(*(landed(self.rounds, f"d{number}") for number in range(SCHEDULES)))
        self.rounds += 1
        async with asyncio.timeout(120):
            while len(jobs := await self.cluster.jobs()) < SCHEDULES * self.rounds:  # noqa: ASYNC110 - others work
                await asyncio.sleep(0.1)
        by_schedule: dict[str, list[str]] = {}
        for job in jobs:
            by_schedule.setdefault(schedule_name(job), []).extend(event_ids(job))
        for number in range(SCHEDULES):
            assert by_schedule[f"s{number}"] == [f"d{number}-{nth}" for nth in range(self.rounds)]

    async def held(self, holds: Callable[[Mapping[str, int]], bool]) -> Mapping[str, tuple[str, int]]:
        """Owner and epoch of each shard, once so many shards of each living owner are as they should be."""
        async with asyncio.timeout(120):
            while True:
                rows = await self.pool.fetch(
                    "SELECT name, owner, epoch, expires_at > now() AS live FROM leases WHERE name LIKE 'shard-%'"
                )
                counts: dict[str, int] = {}
                for row in rows:
                    counts[row["owner"]] = counts.get(row["owner"], 0) + row["live"]
                if len(rows) == SHARDS and holds({owner: count for owner, count in counts.items() if count}):
                    return {row["name"]: (row["owner"], row["epoch"]) for row in rows}
                await asyncio.sleep(0.05)


@asynccontextmanager
async def site(database: str, log: str, folder: Path) -> AsyncIterator[Site]:
    broker, pool = await open_broker(log), await open_pool(database)
    workers = PlacedProcesses(folder, environ(broker_url=log, shards=SHARDS, lease="3s", log_format="json"))
    made = Site(await ShardCluster.create(broker, SHARDS), pool, workers)
    for number in range(SCHEDULES):
        await made.cluster.put(schedule(f"s{number}"), Partitions(DatasetRef("default", f"d{number}"), 1))
    with workers:
        yield made
    await broker.close()
    await pool.close()


def alone(counts: Mapping[str, int]) -> bool:
    return list(counts.values()) == [SHARDS]


def halves(counts: Mapping[str, int]) -> bool:
    return list(counts.values()) == [SHARDS // 2, SHARDS // 2]


@pytest.mark.nightly
async def test_cut_off_stopped_joined_and_sent_home(database: str, kafka_log: str, tmp_path: Path) -> None:
    server, _, socket = database.partition("host=")
    with tempfile.TemporaryDirectory(prefix="ss-wire-") as near:
        wire = Wire(Path(socket), Path(near))
        await wire.mend()
        async with site(database, kafka_log, tmp_path) as there:
            there.hire("a", f"{server}host={near}")
            first = await there.held(alone)
            await there.judged()

            wire.cut()  # no other worker exists: it goes on, long after its leases have run out
            await there.held(lambda counts: not counts)
            for _ in range(2):
                await there.judged()

            there.hire("b", database)  # which shuts the other out
            taken = await there.held(alone)
            assert all(taken[name][1] > epoch for name, (_, epoch) in first.items())
            await there.judged()
            async with asyncio.timeout(120):
                while there.said("a", "shard.fenced") == 0:  # noqa: ASYNC110 - a process tells it to a file
                    await asyncio.sleep(0.05)

            await wire.mend()  # who was cut off asks for its share, and nothing moves but that
            shared = await there.held(halves)
            kept = {name for name, now in shared.items() if now == taken[name]}
            assert len(kept) == SHARDS // 2
            for _ in range(2):
                await there.judged()
            assert await there.held(halves) == shared
            assert there.said("b", "shard.fenced") == 0, "it was asked, and had finished its turns"

            there.workers.running["a"].send_signal(signal.SIGSTOP)
            await there.held(alone)
            await there.judged()
            there.workers.running["a"].send_signal(signal.SIGCONT)  # what it was about to write is refused
            for _ in range(2):
                await there.judged()
            await there.held(halves)

            assert await there.workers.end("b") == 0
            await there.held(alone)
            await there.judged()
            assert there.said("b", "shard.fenced") == 0
        wire.cut()

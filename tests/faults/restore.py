"""A drill of backup and restore: an installation on Kafka under load, a backup of PostgreSQL in the middle, and some
seconds later everything is killed and PostgreSQL's data destroyed. The backup is restored elsewhere, Kafka starts with
its data, and new processes go on with both.

Schedules wait for two partitions each and call a server, which counts the calls of each job. A schedule that is
deployed after the backup is unknown to the restored database: its jobs must be obsolete, and `resync --mend` removes
it.

An event is `before the dump` when it was acknowledged before the backup began, and `after it` when it was later. It is
lost when no job of its pair has completed in the end. Repeated are jobs whose program ran again, because the backup
knew less of them; it is wrong if one of those had completed before the backup began.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from compose.ports import free_port
from streamsched import App, partitions
from streamsched.codec.schedules.schedule import app_to_json
from tests.faults.processes.command import environ, role
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.counting_server import CountingServer
from tests.faults.sites.postgres_server import PostgresServer, create_database
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

SCHEDULES: Final = 16
_APP: Final = "restored"
#: Events in a request, and how often one is sent, in seconds.
_BATCH: Final = 8
_EVERY_S: Final = 0.05
#: How long the load lasts before the backup, and how long it goes on after it.
_BEFORE_S: Final = 3.0
_AFTER_S: Final = 2.0
#: Seconds after which what does not come is lost.
_PATIENCE_S: Final = 90.0
_ROLES: Final = ("worker", "launcher", "api")
_SETTINGS: Final = ("listen_addresses=''", "wal_level=replica", "max_wal_senders=4")
_COMPLETED: Final = "SELECT job FROM runs WHERE state = 'COMPLETED' AND job IS NOT NULL"
_JOBS: Final = "SELECT id FROM jobs WHERE state <> 'OBSOLETE'"


@dataclass(slots=True)
class RestoreSite:
    """Attributes:
    url: what the jobs call.
    roles: in a folder of each of their lives, as on other machines.
    """

    folder: Path
    cluster: Cluster
    postgres: PostgresServer
    called: CountingServer
    url: str
    port: int
    roles: PlacedProcesses = field(init=False)

    def __post_init__(self) -> None:
        self.roles = PlacedProcesses(self.folder, {})

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> str:
        return self.postgres.url.replace("/postgres?", "/faults?")

    async def column(self, query: str) -> Sequence[str]:
        connection = await asyncpg.connect(self.database)
        try:
            return [row[0] for row in await connection.fetch(query)]
        finally:
            await connection.close()

    def start_roles(self) -> None:
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="life-"))
        env = environ(
            database_url=self.database,
            broker_url=self.cluster.url,
            shards=4,
            data_dir=folder / "data",
            api_port=self.port,
            lease="3s",
            launches_per_second=0,
            log_format="json",
            url=self.api,
        )
        self.roles = PlacedProcesses(folder, env)
        for name in _ROLES:
            self.roles.start(name, role(name))

    def kill_everything(self) -> None:
        """SIGKILL to every process, Kafka's too; PostgreSQL's data is gone with it."""
        self.roles.kill_all()
        self.cluster.kill()
        self.postgres.destroy()

    async def restore(self, backup: PostgresServer) -> None:
        """Starts PostgreSQL from the backup, Kafka from its own data, and the roles on both."""
        kafka = asyncio.create_task(asyncio.to_thread(self.cluster.start))
        self.postgres = backup
        await asyncio.to_thread(backup.start)
        self.start_roles()
        await kafka

    def resync(self) -> str:
        """What `streamsched resync --mend` says.

        Raises:
            subprocess.CalledProcessError: shards and PostgreSQL still differ.
        """
        command = (*role("resync"), "--mend")
        return subprocess.run(command, env=self.roles.environ, capture_output=True, text=True, check=True).stdout


@contextmanager
def restore_site(folder: Path) -> Iterator[RestoreSite]:
    """Kafka, PostgreSQL with a migrated database, and the server that jobs call; no roles yet."""
    cluster, postgres = Cluster(folder / "kafka", Shape(free_addresses(1))), PostgresServer(folder / "pg", *_SETTINGS)
    called = CountingServer()
    with called.on_thread() as url:
        site = RestoreSite(folder, cluster, postgres, called, url, free_port())
        try:
            with ThreadPoolExecutor() as both:
                kafka = both.submit(cluster.start)
                postgres.create()
                create_database(postgres.url)
                kafka.result()
            yield site
        finally:
            site.roles.kill_all()
            cluster.kill()
            site.postgres.stop()


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    fresh = httpx.Limits(max_keepalive_connections=0)
    with restore_site(asked.folder) as site:
        async with httpx.AsyncClient(base_url=site.api, limits=fresh, timeout=20) as client:
            yield Site(lambda _: RestoreDrill(site, client, random.Random(asked.seed)))


class RestoreDrill(Trial):
    """One play. Events of a request have ids, so that one without an answer is sent again."""

    patience_s = _PATIENCE_S

    def __init__(self, site: RestoreSite, client: httpx.AsyncClient, rng: random.Random) -> None:
        self._site = site
        self._client = client
        self._rng = rng
        self._acknowledged: Counter[int] = Counter()
        self._open: Sequence[Mapping[str, Any]] = ()
        self._number = 0
        self._before = 0
        self._completed_before: frozenset[str] = frozenset()
        self._called_before: Counter[str] = Counter()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Until everything is killed; what was open then is sent again in the end."""
        self._site.start_roles()
        await self._ready()
        await self._deploy(_APP, SCHEDULES)
        self._loading = asyncio.create_task(self._load())
        yield
        if self._open:
            await self._send(self._open)
        assert not self._acknowledged.total() % 2, "pairs are sent together"

    async def faults(self) -> AsyncIterator[str]:
        site = self._site
        await asyncio.sleep(_BEFORE_S)
        self._before = self._acknowledged.total()
        self._completed_before = frozenset(await site.column(_COMPLETED))
        backup = PostgresServer(site.folder / "restored", *_SETTINGS)
        await asyncio.to_thread(site.postgres.back_up, backup.folder)
        yield "backed up"
        await self._deploy("later", 1)  # the shards know it, the backup does not
        await asyncio.sleep(_AFTER_S)
        self._loading.cancel()
        site.kill_everything()
        yield "everything killed"
        with suppress(asyncio.CancelledError):
            await self._loading
        self._called_before = Counter(site.called.seen)
        await site.restore(backup)
        await self._ready()
        yield "restored"

    async def judge(self) -> Judgement:
        site, verdict = self._site, Judgement(("lost", "wrong", "repeated"), frozenset({"repeated"}))
        expected = {f"default.{_APP}.s{number}.1.{n}" for number in self._acknowledged for n in self._jobs(number)}
        for job in sorted(expected - set(await site.column(_COMPLETED))):
            verdict.miss(f"the two events of {job}", 2)
        if verdict.lost:
            return verdict
        said = await asyncio.to_thread(site.resync)
        if "agree" not in said:
            verdict.spoil(said)
        for job in sorted(set(await site.column(_JOBS)) - expected):
            verdict.spoil(f"{job} was not expected")
        for job, times in site.called.seen.items():
            if times > 1:
                verdict.note("repeated", job)
            if times > 1 and job in self._completed_before:
                verdict.spoil(f"{job} had completed before the backup and ran again")
            if self._called_before[job] > 1:
                verdict.spoil(f"{job} ran again though no process had died")
        return verdict

    def counts(self) -> Counts:
        return {"before the dump": self._before, "after it": self._acknowledged.total() - self._before}

    def _jobs(self, number: int) -> range:
        """The numbers of the jobs that a schedule must have."""
        return range(1, self._acknowledged[number] // 2 + 1)

    async def _load(self) -> None:
        while True:
            await self._send(self._pairs())
            await asyncio.sleep(_EVERY_S)

    def _pairs(self) -> Sequence[Mapping[str, Any]]:
        """Two new partitions each of some datasets, an event for each."""
        events = []
        for number in self._rng.sample(range(SCHEDULES), _BATCH // 2):
            for part in "ab":
                self._number += 1
                data = {"dataset": f"default.d{number}", "partitions": [f"n={self._number}/part={part}"]}
                events.append({"id": f"e{self._number}", "source": "drill", "type": "partitions.added", "data": data})
        return events

    async def _send(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Until it is acknowledged. Open meanwhile, also when this is cancelled."""
        self._open = events
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                with suppress(httpx.TransportError):
                    answer = await self._client.post("/v1/events", params={"check": "none"}, json=events)
                    if answer.status_code == httpx.codes.ACCEPTED:
                        break
                await asyncio.sleep(0.2)
        self._acknowledged.update(int(event["data"]["dataset"].removeprefix("default.d")) for event in events)
        self._open = ()

    async def _deploy(self, name: str, schedules: int) -> None:
        app = App(name)
        call = app.http("call", self._site.url)
        for number in range(schedules):
            app.schedule(f"s{number}", call, when=partitions(f"d{number}", 2), overlap="queue")
        answer = await self._client.put(f"/v1/apps/default/{name}", json=app_to_json(app.definition()))
        answer.raise_for_status()

    async def _ready(self) -> None:
        """Returns when the API can do its work."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                with suppress(httpx.TransportError):
                    if (await self._client.get("/health/ready")).status_code == httpx.codes.OK:
                        return
                await asyncio.sleep(0.1)

"""A drill of backup and restore: an installation on Kafka under load, a backup of PostgreSQL in the middle, and some
seconds later everything is killed and PostgreSQL's data destroyed. The backup is restored elsewhere, Kafka starts with
its data, and new processes go on with both.

    make restore SEED=1

Schedules wait for two partitions each and call a server, which counts the calls of each job. A schedule that is
deployed after the backup is unknown to the restored database: its jobs must be obsolete, and `resync --mend` removes
it.

The last line is the verdict. An event is `before the dump` when it was acknowledged before the backup began, and `after
it` when it was later. It is lost when no job of its pair has completed in the end. Repeated are jobs whose program ran
again, because the backup knew less of them; none of those may have completed before the backup began, and no job may
exist beside those expected.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx
import psutil
import structlog

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from compose.ports import free_ports
from streamsched import App, partitions
from streamsched.codec.schedules.schedule import app_to_json
from streamsched.store.server.migrate import migrate
from tests.faults.processes.command import environ, module, role, start
from tests.faults.sites.backed_up_postgres import BackedUpPostgres
from tests.faults.sites.counting_server import CountingServer

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
_COMPLETED: Final = "SELECT job FROM runs WHERE state = 'COMPLETED' AND job IS NOT NULL"
_JOBS: Final = "SELECT id FROM jobs WHERE state <> 'OBSOLETE'"


@dataclass(slots=True)
class RestoreSite:
    """Attributes:
    url: what the jobs call.
    lives: how often the roles were started; each time in a folder of its own, as on other machines.
    """

    folder: Path
    cluster: Cluster
    postgres: BackedUpPostgres
    called: CountingServer
    url: str
    port: int
    lives: int = 0
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> Mapping[str, str]:
        return environ(
            database_url=self.postgres.url,
            broker_url=self.cluster.url,
            shards=4,
            data_dir=self.folder / f"data-{self.lives}",
            api_port=self.port,
            lease="3s",
            launches_per_second=0,
            log_format="json",
            url=self.api,
        )

    def start_roles(self) -> None:
        self.lives += 1
        logs = self.folder / f"life-{self.lives}"
        logs.mkdir()
        command = module("tests.faults.processes.forked_roles", str(logs), *_ROLES)
        self.running.append(start(command, logs / "parent.log", self.environ))

    def kill_everything(self) -> None:
        """SIGKILL to every process, Kafka's too; PostgreSQL's data is gone with it."""
        self.kill_roles()
        self.cluster.kill()
        self.postgres.destroy()

    def kill_roles(self) -> None:
        for parent in self.running:
            with suppress(psutil.NoSuchProcess):
                family = [*psutil.Process(parent.pid).children(recursive=True), parent]
                for each in family:
                    each.kill()
            parent.wait()
        self.running.clear()

    async def restore(self, backup: BackedUpPostgres) -> None:
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
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True).stdout


@contextmanager
def restore_site(folder: Path) -> Iterator[RestoreSite]:
    """Kafka, PostgreSQL with a migrated database, and the server that jobs call; no roles yet."""
    folder.chmod(0o755)
    cluster, postgres = Cluster(folder / "kafka", Shape(free_addresses(1))), BackedUpPostgres(folder / "pg")
    called = CountingServer()
    with called.on_thread() as url:
        site = RestoreSite(folder, cluster, postgres, called, url, free_ports(1)[0])
        try:
            with ThreadPoolExecutor() as both:
                kafka = both.submit(cluster.start)
                postgres.create()
                migrate(postgres.url)
                kafka.result()
            yield site
        finally:
            site.kill_roles()
            cluster.kill()
            site.postgres.stop()


@dataclass(slots=True)
class RestoreVerdict:
    """Attributes:
    before, after: events that were acknowledged before the backup began, and later.
    lost: events in pairs without a completed job.
    repeated: jobs whose program ran more than once.
    wrong: what contradicts the promises, in words.
    """

    before: int
    after: int
    lost: int
    repeated: int
    wrong: Sequence[str]

    @property
    def well(self) -> bool:
        return not self.lost and not self.wrong

    def line(self) -> str:
        return f"before the dump {self.before} after it {self.after} lost {self.lost} repeated {self.repeated}"


class RestoreDrill:
    """One play. Events of a request have ids, so that one without an answer is sent again."""

    def __init__(self, site: RestoreSite, client: httpx.AsyncClient, rng: random.Random) -> None:
        self._site = site
        self._client = client
        self._rng = rng
        self._acknowledged: Counter[int] = Counter()
        self._open: Sequence[Mapping[str, Any]] = ()
        self._number = 0

    async def run(self) -> RestoreVerdict:
        site = self._site
        site.start_roles()
        await self._ready()
        await self._deploy(_APP, SCHEDULES)
        loading = asyncio.create_task(self._load())
        await asyncio.sleep(_BEFORE_S)
        before, completed = self._acknowledged.total(), await _column(site.postgres.url, _COMPLETED)
        backup = BackedUpPostgres(site.folder / "restored")
        await asyncio.to_thread(site.postgres.back_up, backup.folder)
        await self._deploy("later", 1)  # the shards know it, the backup does not
        await asyncio.sleep(_AFTER_S)
        loading.cancel()
        site.kill_everything()
        with suppress(asyncio.CancelledError):
            await loading
        called = Counter(site.called.seen)
        await site.restore(backup)
        await self._ready()
        if self._open:
            await self._send(self._open)
        if self._acknowledged.total() % 2:
            raise AssertionError("pairs are sent together")
        expected = {f"default.{_APP}.s{number}.1.{n}" for number in self._acknowledged for n in self._jobs(number)}
        found = await self._settled(expected)
        said = await asyncio.to_thread(site.resync)
        jobs = set(await _column(site.postgres.url, _JOBS))
        again = {job for job, times in site.called.seen.items() if times > 1}
        wrong = [f"{job} was not expected" for job in sorted(jobs - expected)]
        wrong += [f"{job} had completed before the backup and ran again" for job in sorted(again & set(completed))]
        wrong += [f"{job} ran again though no process had died" for job, times in called.items() if times > 1]
        if "agree" not in said:
            wrong.append(said)
        return RestoreVerdict(
            before=before,
            after=self._acknowledged.total() - before,
            lost=2 * len(expected - found),
            repeated=len(again),
            wrong=wrong,
        )

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

    async def _settled(self, expected: set[str]) -> set[str]:
        """The jobs that have completed: all that are expected, or those that have after a long time."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            found = set(await _column(self._site.postgres.url, _COMPLETED))
            if expected <= found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.2)


async def _column(url: str, query: str) -> Sequence[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def run(site: RestoreSite, *, seed: int) -> RestoreVerdict:
    """One drill on a fresh site."""
    fresh = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=site.api, limits=fresh, timeout=20) as client:
        return await RestoreDrill(site, client, random.Random(seed)).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="a folder to leave the processes' logs in")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="ss-restore-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        with restore_site(scratch) as site:
            try:
                verdict = asyncio.run(run(site, seed=asked.seed))
            finally:
                if asked.logs:
                    asked.logs.mkdir(parents=True, exist_ok=True)
                    for log in scratch.glob("life-*/*.log"):
                        (asked.logs / f"{log.parent.name}-{log.name}").write_bytes(log.read_bytes())
    for line in (*verdict.wrong, verdict.line()):
        sys.stdout.write(f"{line}\n")
    sys.exit(not verdict.well)


if __name__ == "__main__":
    main()

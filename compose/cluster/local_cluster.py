"""A local cluster: what it consists of, started, kept and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import httpx

from compose.cluster.errors import NotStartedError
from compose.cluster.folder import ClusterFolder
from compose.cluster.part import Part
from compose.cluster.ports import HOST
from compose.cluster.prometheus import prometheus_part
from compose.cluster.roles import role_environ, role_parts
from compose.cluster.spark import spark_parts
from compose.downloads import MissingError
from compose.kafka.cluster import Cluster, NotReadyError
from compose.kafka.properties import Address, Shape
from streamsched.roles.access import create_token_directly
from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.migrate import migrate

#: Seconds within which every part must be healthy.
HEALTHY_SECONDS: Final = 120.0
_EVERY: Final = 0.2


@dataclass
class LocalCluster:
    """Attributes:
    say: is given a line for each part that ended by itself and was started again.
    parts: by name, in the order of their start; Kafka and PostgreSQL are not among them.
    away: names of parts that are not to be started again.
    """

    folder: ClusterFolder
    ports: Mapping[str, int]
    with_spark: bool
    with_prometheus: bool
    say: Callable[[str], None]
    parts: dict[str, Part] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    database: str = ""
    run_as: str = ""

    @property
    def api(self) -> str:
        return f"http://{HOST}:{self.ports['api']}"

    @property
    def token(self) -> str:
        """Of an administrator."""
        return self.folder.token_file("admin").read_text().strip()

    @cached_property
    def kafka(self) -> Cluster:
        return Cluster(self.folder.kafka, Shape((Address(self.ports["kafka"], self.ports["kafka-quorum"]),)))

    @property
    def environ(self) -> dict[str, str]:
        """Of the roles."""
        return role_environ(
            self.folder,
            self.ports,
            database=self.database,
            broker=self.kafka.url,
            spark=self.with_spark,
            run_as=self.run_as,
        )

    async def start(self) -> None:
        """Starts everything and returns when all parts are healthy.

        Raises:
            NotStartedError: a part did not start, or is not healthy in time.
        """
        try:
            async with asyncio.timeout(HEALTHY_SECONDS), asyncio.TaskGroup() as starting:
                starting.create_task(asyncio.to_thread(self.kafka.start))
                if self.with_spark:
                    starting.create_task(self._start_spark())
                starting.create_task(self._start_roles())
        except* (MissingError, NotReadyError) as errors:
            raise NotStartedError(str(errors.exceptions[0])) from errors
        except* NotStartedError as errors:
            raise errors.exceptions[0] from errors
        except* TimeoutError as errors:
            raise NotStartedError(f"not started within {HEALTHY_SECONDS:g} s; logs: {self.folder.logs}") from errors

    async def until_healthy(self, names: Sequence[str] | None = None) -> None:
        """Returns when these parts (default: all) are healthy.

        Raises:
            NotStartedError: one has ended, or is not healthy in time.
        """
        parts = [self.parts[name] for name in names or self.parts]
        wrong: dict[str, str] = {}
        try:
            async with asyncio.timeout(HEALTHY_SECONDS), httpx.AsyncClient(timeout=5) as client:
                while True:
                    for part in parts:
                        if part.ended is not None:
                            raise NotStartedError(f"{part.name} ended ({part.ended}):\n{part.last_words()}")
                    answers = await asyncio.gather(*(part.healthy(client) for part in parts))
                    wrong = {part.name: answer for part, answer in zip(parts, answers, strict=True) if answer}
                    if not wrong:
                        return
                    await asyncio.sleep(_EVERY)
        except TimeoutError as exc:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in wrong.items())
            raise NotStartedError(f"not healthy in time: {reasons}; logs: {self.folder.logs}") from exc

    async def keep(self) -> None:
        """Starts parts that ended by themselves again, a second later, until cancelled."""
        while True:
            for part in self.parts.values():
                if part.ended is not None and part.name not in self.away:
                    self.say(f"{part.name} ended ({part.ended}) and is started again; its log: {part.log}")
                    part.start()
            await asyncio.sleep(1)

    def stop(self) -> None:
        """Stops everything: the roles first, then what they use. Idempotent."""
        for part in self.parts.values():
            part.ask_to_stop()
        for part in reversed(self.parts.values()):
            part.stop()
        self.kafka.stop()
        stop_server(self.folder.postgres)

    async def _start_spark(self) -> None:
        for part in spark_parts(self.folder, self.ports):
            self._begin(part)
            await self.until_healthy([part.name])

    async def _start_roles(self) -> None:
        """The database and its tokens first; the roles wait for the log by themselves."""
        self.database = (await asyncio.to_thread(start_server, self.folder.postgres)).url
        await asyncio.to_thread(migrate, self.database)
        for role in ("admin", "viewer"):
            await self._ensure_token(role)
        self.folder.write_environment(
            {
                "STREAMSCHED_URL": self.api,
                **{name: value for name, value in self.environ.items() if name in _FOR_A_SHELL},
            }
        )
        for part in role_parts(self.folder, self.ports, self.environ):
            self._begin(part)
        prometheus = prometheus_part(self.folder, self.ports) if self.with_prometheus else None
        if prometheus is not None:
            self._begin(prometheus)
        await self.until_healthy([name for name in self.parts if not name.startswith("spark")])

    def _begin(self, part: Part) -> None:
        self.parts[part.name] = part
        part.start()

    async def _ensure_token(self, role: str) -> None:
        """Creates the token of a role once; its database is in the same folder, so it stays valid."""
        file = self.folder.token_file(role)
        if not file.exists():
            body = {"name": f"local-{role}", "grants": [{"role": role}]}
            made = await create_token_directly(self.database, body, by="compose.cluster")
            self.folder.write_secret(file, made["text"])


_FOR_A_SHELL: Final = frozenset(
    {"STREAMSCHED_DATABASE_URL", "STREAMSCHED_BROKER_URL", "STREAMSCHED_SHARDS", "STREAMSCHED_DATA_DIR"}
)

"""Webhooks on a real PostgreSQL with a settable clock, and a real HTTP receiver that answers as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import asyncpg

from streamsched.domain.notices.mail_server import MailSettings
from streamsched.domain.webhooks.signature import secret_text, signature_headers, signing_key
from streamsched.domain.webhooks.webhook import Webhook
from streamsched.ports.leases import LeaseHolder
from streamsched.process.http_client import HttpClient
from streamsched.secrets.resolver import Secrets
from streamsched.store.server.leases import PostgresTaskLeases
from streamsched.store.tasks.delivery import DeliveryStore
from streamsched.store.tasks.partitions import READS, TaskPartitions
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.webhooks.notices import NoticeStore
from streamsched.store.webhooks.webhooks import WebhookStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.ownership import Ownership
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.telemetry.metrics import Metrics
from streamsched.testing.clock import SettableClock
from streamsched.webhooks.delivery import WebhookReceiver
from streamsched.webhooks.feeding import WebhookFeeding
from streamsched.webhooks.mailing import MailDelivery
from streamsched.webhooks.notices import NoticeFeeding
from tests.integration.tasks.task_world import AnsweringReceiver, SilentNotifier
from tests.support.world import StoredWorld

SECRET = secret_text(bytes(range(32)))
LOOPBACK = (ip_network("127.0.0.0/8"),)
PAGES = "https://scheduler.example.org"


@dataclass
class Got:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    def verified(self, *secrets: str) -> bool:
        """Whether its signatures are those of these secrets, in their order; none given: of `SECRET`."""
        message, sent_at = self.headers["webhook-id"], int(self.headers["webhook-timestamp"])
        wanted = [
            signature_headers(message, sent_at, self.body, signing_key(each))["webhook-signature"]
            for each in secrets or (SECRET,)
        ]
        return self.headers["webhook-signature"].split(" ") == wanted


@dataclass
class Receiver:
    """A server; `answer` is the status line of a request, None: it never answers."""

    url: str = ""
    answer: Callable[[Got], str | None] = lambda _: "204 No Content"
    body: Callable[[Got], str] = lambda _: ""
    got: list[Got] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
                body = await reader.readexactly(int(headers["content-length"]))
                request = Got(head[0].split(" ")[1], headers, body)
                async with self.arrived:
                    self.got.append(request)
                    self.arrived.notify_all()
                status = self.answer(request)
                if status is None:
                    await reader.read()
                    return
                said = self.body(request).encode()
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()

    async def until(self, number: int) -> None:
        """Returns when so many requests have come."""
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.got) >= number)

    @property
    def subjects(self) -> list[str]:
        return [each.event["subject"] for each in self.got]


@asynccontextmanager
async def receiving(answer: Callable[[Got], str | None] = lambda _: "204 No Content") -> AsyncIterator[Receiver]:
    """A receiver on a port of this machine."""
    made = Receiver(answer=answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


class WebhookWorld(StoredWorld):
    """One database, one clock, one feeder, any number of owners."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.clock = SettableClock()
        self.store = WebhookStore(pool)
        self.work_history = PostgresWorkHistory(pool)
        self.metrics = Metrics()
        self.environ: dict[str, str] = {}
        self.rules: Sequence[Any] = ()
        self.networks: Sequence[Any] = LOOPBACK
        self.mail: MailSettings | None = None
        self.mail_rules: Sequence[Any] = ()
        self.notices = NoticeStore(pool, pages=PAGES)
        self._owners = 0

    def feeding(self, pages: str = "") -> WebhookFeeding:
        return WebhookFeeding(self.work_history, self.store, self.clock, pages=pages)

    def notifying(self) -> NoticeFeeding:
        """What notifies the recipients of apps."""
        return NoticeFeeding(PostgresWorkHistory(self.pool), self.notices, self.clock)

    async def webhook(self, url: str, name: str = "hook", **more: Any) -> str:
        """Creates a webhook; returns its id."""
        made = Webhook(namespace=more.pop("namespace", "default"), name=name, url=url, **more)
        secret = SECRET if made.secret is None else None
        await self.store.create(made, secret=secret, by="test", now=self.clock.now())
        return made.id

    async def write(self, *lines: tuple[str, str], connection: Any = None) -> None:
        """Writes lines of the history: (subject, action)."""
        rows = [(self.clock.now(), action.partition(".")[0], subject, action, "why") for subject, action in lines]
        columns = ("at", "subject_kind", "subject", "action", "reason")
        if connection is not None:
            await connection.copy_records_to_table("decisions", records=rows, columns=columns)
            return
        async with self.pool.acquire() as own:
            await own.copy_records_to_table("decisions", records=rows, columns=columns)

    @asynccontextmanager
    async def owning(self) -> AsyncIterator[TaskLoop]:
        """An owner of all partitions, which leaves in order."""
        self._owners += 1
        store, partitions = DeliveryStore(self.pool), TaskPartitions(self.pool)
        me = LeaseHolder(f"owner-{self._owners}", "host", self._owners, READS)
        ttl = timedelta(seconds=60)
        ownership = Ownership(PostgresTaskLeases(self.pool), me, store, partitions, self.clock, ttl=ttl)
        client = HttpClient(self.networks)
        mail = MailDelivery(self.notices, self.mail, Secrets(self.mail_rules, self.environ), self.clock)
        owner = TaskLoop(
            store,
            QueueStore(self.pool),
            ownership,
            SilentNotifier(),
            self.clock,
            http=AnsweringReceiver(self.clock),
            workers=WorkerStreams(self.clock),
            webhooks=WebhookReceiver(
                self.store, client, Secrets(self.rules, self.environ), self.clock, leased=lambda: True, mail=mail
            ),
            metrics=self.metrics,
        )
        await owner.step_ownership()
        try:
            yield owner
        finally:
            await owner.stop(0)
            await client.close()

    async def expire(self) -> None:
        """The leases of all owners have ended, as when their processes are dead."""
        await self.expire_task_owners()

    async def settle(self, owner: TaskLoop) -> None:
        """Delivers until nothing is due any more."""
        while await owner.run_once():
            await owner.wait_until_delivered()

    def pass_time(self, **more: float) -> None:
        self.clock.advance(timedelta(**more))

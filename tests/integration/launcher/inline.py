"""Launchers with their inline executors in one process, and a real server on loopback for their requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from streamsched.domain.addresses import EVERYWHERE, Network
from streamsched.domain.names import EventName
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import HttpJob, PublishJob
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.loop import Launcher
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.ports.runner import RunnerId
from streamsched.process.http_client import HttpClient
from streamsched.store.runs.launchers import LauncherLeases
from streamsched.store.runs.run_batch import RunBatch

from .conftest import World, schedule

HERE = RunnerId("here", 1, 1)
OTHER = RunnerId("here", 2, 2)
THIRD = RunnerId("here", 3, 3)
LEASE = timedelta(seconds=60)
QUICK = schedule("quick", overlap=Overlap.QUEUE)
SAY = PublishJob(EventName("default", "said"), {"why": "{trigger.job}", "a": "{a}"})


@dataclass
class Staffed:
    """A launcher with its inline executor and its lease, and what it does until nothing moves."""

    world: World
    me: RunnerId = HERE
    capacity: int = 1024
    networks: Sequence[Network] = EVERYWHERE
    inline_executor: InlineExecutor = field(init=False)
    run_monitor: RunMonitor = field(init=False)
    launcher: Launcher = field(init=False)
    recovery: Recovery = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        self.inline_executor = InlineExecutor(
            *(RunBatch(world.pool), self.me, HttpClient(self.networks), world.clock),
            capacity=self.capacity,
            heartbeat=timedelta(0),
        )
        self.run_monitor = RunMonitor(
            world.run_store, world.runners, world.clock, RunTimeouts(jitter=0), inline=self.inline_executor
        )
        self.launcher = Launcher(
            world.decisions, self.run_monitor, world.notifier, world.clock, inline=self.inline_executor
        )
        leases = LauncherLeases(world.pool)
        self.recovery = Recovery(leases, world.runners, self.me, world.clock, ttl=LEASE, attempts=3)

    async def once(self) -> None:
        await self.launcher.run_once()
        await self.inline_executor.run_once()

    async def until(self, run: str, state: str) -> str:
        """The reason of the run, when it has come to that."""
        async with asyncio.timeout(30):
            while True:
                await self.once()
                for found in await self.world.stored_runs():
                    if found.id == run and found.state == state:
                        return found.reason
                await asyncio.sleep(0.01)


class Answering:
    """What a server was asked (the head of each request), and what it answers; nothing while `answer` is empty."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.words = "well!"
        self.asked: list[str] = []
        self.asking = asyncio.Event()
        self.port = 0
        self._reported = asyncio.Event()
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def answer_all(self) -> None:
        """Those who still wait get `answer` too."""
        self._reported.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self.serve(reader, writer))
        self._serving[task] = writer
        await asyncio.wait([task])
        del self._serving[task]

    async def close(self) -> None:
        """Ends the connections that are still open."""
        for writer in self._serving.values():
            writer.transport.abort()
        if self._serving:
            await asyncio.wait(self._serving)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length")), 0)
        self.asked.append(head + (await reader.readexactly(length)).decode())
        self.asking.set()
        if not self.answer:
            hang_up = asyncio.ensure_future(reader.read())
            reported = asyncio.ensure_future(self._reported.wait())
            await asyncio.wait([hang_up, reported], return_when=asyncio.FIRST_COMPLETED)
            hang_up.cancel()
            reported.cancel()
        head = f"HTTP/1.1 {self.answer}\r\nContent-Length: {len(self.words)}\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n{self.words}".encode())
        writer.close()

    def keys(self) -> list[str]:
        lines = [line for each in self.asked for line in each.splitlines()]
        return [line[17:] for line in lines if line.lower().startswith("idempotency-key")]


@asynccontextmanager
async def answering(answer: str) -> AsyncIterator[Answering]:
    far = Answering(answer)
    server = await asyncio.start_server(far.accept, "127.0.0.1", 0)
    far.port = server.sockets[0].getsockname()[1]
    try:
        yield far
    finally:
        server.close()
        await far.close()


async def satisfied(world: World, program: HttpJob | PublishJob, retry: Retry | None = None, jobs: int = 1) -> None:
    one = schedule("quick", overlap=Overlap.QUEUE, retry=retry)
    await world.define(one)
    await world.execute(program)
    await world.satisfy(*(world.ready(one, n) for n in range(1, jobs + 1)))


def run(job: int = 1, attempt: int = 1) -> str:
    return f"default.app.quick.1.{job}.r{attempt}"


def request(far: Answering, path: str = "/x", **fields: object) -> HttpJob:
    return HttpJob(f"http://127.0.0.1:{far.port}{path}", **fields)  # type: ignore[arg-type]

"""The process that delivers Dapr's jobs is killed between delivery and acknowledgement: every job comes again, none is
lost, none is early, and the kill uses up no attempt.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import grpc
import httpx
import pytest
from aiohttp import web

from compose.ports import free_port
from streamsched.dialects.dapr.codec.job import ConstantFailure, DaprJob
from streamsched.dialects.dapr.codec.scope import DaprApp
from streamsched.dialects.dapr.desk import make_desk
from streamsched.dialects.dapr.store.instances import AppInstance, AppInstances
from streamsched.ports.clock import SystemClock
from streamsched.store.connections import open_pool
from tests.faults.processes.command import role
from tests.faults.sites.installation_site import InstallationSite, site
from tests.integration.dapr.sidecar import Sidecar, of_app

pytestmark = [pytest.mark.torture, pytest.mark.postgres, pytest.mark.timeout(240)]

APP = DaprApp("default", "orders")
ONCE, OFTEN = 30, 3


class HoldingApp:
    """Answers the first delivery of each job never, all others at once. `got`: Unix seconds and the job's name."""

    def __init__(self) -> None:
        self.got: list[tuple[float, str]] = []
        self.held: set[str] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/job/{name}", self._job)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()

    async def _job(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.got.append((time.time(), name))
        if name not in self.held:
            self.held.add(name)
            await asyncio.Event().wait()
        return web.Response()


async def scheduled(pool: asyncpg.Pool) -> dict[str, datetime]:
    """The jobs, by name, with the time of their first tick."""
    desk = make_desk(pool, SystemClock())
    await desk.open(APP)
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    text = due.isoformat().replace("+00:00", "Z")
    once = ConstantFailure(timedelta(seconds=1), 0)  # a single attempt: a kill must not use it up
    for number in range(ONCE):
        await desk.schedule(APP, DaprJob(name=f"once{number}", due_time=text, failure_policy=once), overwrite=False)
    for number in range(OFTEN):
        job = DaprJob(name=f"often{number}", due_time=text, schedule="@every 1s", repeats=3, failure_policy=once)
        await desk.schedule(APP, job, overwrite=False)
    return {f"once{n}": due for n in range(ONCE)} | {f"often{n}": due for n in range(OFTEN)}


async def until_all_ended(pool: asyncpg.Pool) -> list[asyncpg.Record]:
    """The ends of all ticks, when no task is left."""
    async with asyncio.timeout(90):
        while await pool.fetchval("SELECT EXISTS (SELECT FROM tasks)"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return await pool.fetch("SELECT key, state, due_at, record FROM tasks_history ORDER BY at")


def check(due: dict[str, datetime], got: list[tuple[float, str]], ends: list[asyncpg.Record]) -> None:
    """Each tick ended once, by an acknowledgement; of each job exactly one delivery was repeated; none was early."""
    assert Counter(row["key"] for row in ends) == {name: 1 if name.startswith("once") else 3 for name in due}
    assert {row["state"] for row in ends} == {"SUCCEEDED"}
    assert {row["record"]["failures"] for row in ends} == {0}
    assert Counter(name for _, name in got) == {name: 2 if name.startswith("once") else 4 for name in due}
    first: dict[str, float] = {}
    for at, name in got:
        first.setdefault(name, at)
    assert not [name for name, at in first.items() if at < due[name].timestamp()]
    third = [at for at, name in got if name.startswith("often")][-OFTEN:]
    assert min(third) >= max(due.values()).timestamp() + 2


@pytest.mark.nightly
def test_an_app_gets_again_what_it_had_not_answered_when_its_launcher_was_killed(tmp_path: Path) -> None:
    with site(tmp_path, "postgres") as there:
        asyncio.run(killed_with_an_app(there))


def test_a_sidecar_gets_again_what_it_had_not_acknowledged_when_its_launcher_was_killed(tmp_path: Path) -> None:
    with site(tmp_path, "postgres") as there:
        asyncio.run(killed_with_a_sidecar(there))


async def killed_with_an_app(there: InstallationSite) -> None:
    app, port = HoldingApp(), free_port()
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(there.database, max_size=4))
        address = await stack.enter_async_context(app.running())
        instances = AppInstances(pool)

        async def beat() -> None:
            while True:
                await instances.beat([AppInstance(APP.queue, address)])
                await asyncio.sleep(2)

        stack.callback(asyncio.create_task(beat()).cancel)
        due = await scheduled(pool)
        launchers = stack.enter_context(there.processes())
        launchers.start("first", role("launcher"))
        await arrived(app.got, len(due))
        launchers.kill("first")
        launchers.start("second", role("launcher"), health_port=port)
        ends = await until_all_ended(pool)
        check(due, app.got, ends)
        async with httpx.AsyncClient() as client:
            metrics = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        name = f'streamsched_queue_attempts_total{{queue="{APP.queue}",result="acknowledged"}}'
        assert f"{name} {float(len(ends))}" in metrics


async def killed_with_a_sidecar(there: InstallationSite) -> None:
    address = f"127.0.0.1:{free_port()}"
    got: list[tuple[float, str]] = []
    held: set[str] = set()
    options = (("grpc.max_reconnect_backoff_ms", 500), ("grpc.initial_reconnect_backoff_ms", 200))

    async def watch() -> None:
        """Acknowledges all but the first delivery of each job; connects again whenever its stream breaks."""
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            while True:
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    stream = await Sidecar(channel).watch()
                    while trigger := await stream.read():  # the end of the stream is false
                        got.append((time.time(), trigger.name))
                        if trigger.name in held:
                            await Sidecar.end(stream, trigger.id)
                        held.add(trigger.name)
                await asyncio.sleep(0.1)

    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(there.database, max_size=4))
        due = await scheduled(pool)
        launchers = stack.enter_context(there.processes())
        launchers.start("first", role("launcher"), dapr_scheduler=address)
        stack.callback(asyncio.create_task(watch()).cancel)
        await arrived(got, len(due))
        launchers.kill("first")
        launchers.start("second", role("launcher"), dapr_scheduler=address)
        check(due, got, await until_all_ended(pool))
        async with grpc.aio.insecure_channel(address) as channel:
            assert not (await Sidecar(channel).call("ListJobs", metadata=of_app())).jobs


async def arrived(got: list[tuple[float, str]], many: int) -> None:
    """Returns when so many are in flight; none is answered."""
    async with asyncio.timeout(60):
        while len(got) < many:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

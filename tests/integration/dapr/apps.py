"""Apps that get jobs: over HTTP, written by hand; over gRPC, with Dapr's Python SDK in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from compose.ports import free_port

SDK_APP = Path(__file__).with_name("sdk_app.py")


@dataclass
class HttpApp:
    """Records what it gets; `answer` says with which status."""

    answer: Callable[[str, int], int] = lambda _name, _times: 200
    port: int = 0
    got: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for(self, number: int) -> None:
        """Returns when so many jobs have arrived."""
        async with asyncio.timeout(20):
            while len(self.got) < number:
                self.arrived.clear()
                await self.arrived.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serves; yields its address."""
        app = web.Application()
        app.router.add_post("/job/{name:.*}", self._job)
        runner = web.AppRunner(app)
        await runner.setup()
        self.port = self.port or free_port()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            await runner.cleanup()

    async def _job(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.got.append((name, await request.read(), dict(request.headers)))
        self.arrived.set()
        return web.Response(status=self.answer(name, sum(1 for each in self.got if each[0] == name)))


@asynccontextmanager
async def sdk_app(port: int, *names: str, stuck: bool = False) -> AsyncIterator[asyncio.StreamReader]:
    """An app of the SDK with handlers for these jobs; yields the lines that it prints: job and data. It is killed
    at the end. `stuck`: its handlers of jobs named `stuck…` do not return.
    """
    environ = {**os.environ, "SDK_APP_STUCK": "1"} if stuck else None
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SDK_APP), str(port), *names, stdout=asyncio.subprocess.PIPE, env=environ
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()

"""A real API on a port of this machine: uvicorn in a thread with its own event loop, PostgreSQL with the log in it, and
a relay.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from streamsched.api.app import make_api
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.config import Settings
from streamsched.roles.access import create_token_directly
from streamsched.roles.api import api_services, make_http
from streamsched.roles.services import open_services
from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.migrate import migrate
from tests.support.relaying import relaying

_ADMIN = {"name": "admin", "grants": [{"role": "admin"}]}


@dataclass(frozen=True, slots=True)
class ServedApi:
    """Its URL, and the text of an admin's token; empty when it asks for none."""

    url: str
    token: str
    database: str

    def client(self) -> httpx.Client:
        """A client with that token."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def temporary_database() -> Iterator[str]:
    """URL of a migrated database of a temporary server."""
    with tempfile.TemporaryDirectory(prefix="ss-api-", ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)
        folder = Path(scratch) / "pg"
        url = start_server(folder).url
        try:
            migrate(url)
            yield url
        finally:
            stop_server(folder)


@contextmanager
def served_api(database: str, *, pages: bool = False, **settings: Any) -> Iterator[ServedApi]:
    """An API on a migrated database, with these settings, and with the pages if asked for."""
    made = Settings.from_env({}, database_url=database, api_host="127.0.0.1", **settings)
    bound = bind("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    ready: threading.Event = threading.Event()
    failed: list[Exception] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve() -> None:
        async with open_services(made) as services:
            own = api_services(services)
            app = make_http(own, services.pool) if pages else make_api(own)
            server = HttpServer(app, bound, started=ready.set)
            async with relaying(services):
                await server.run()

    def run() -> None:
        asyncio.set_event_loop(loop)
        task = loop.create_task(serve())
        tasks.append(task)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except Exception as exc:  # noqa: BLE001 - raised again by the thread that waits
            failed.append(exc)
        finally:
            ready.set()
            loop.close()

    token = ""
    if made.api.access == "tokens":
        token = asyncio.run(create_token_directly(database, _ADMIN, by="test"))["text"]
    thread = threading.Thread(target=run, name="served-api", daemon=True)
    thread.start()
    try:
        assert ready.wait(60), "the API does not start"
        if failed:
            raise failed[0]
        yield ServedApi(url_of(bound), token, database)
    finally:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tasks[0].cancel)
        thread.join(30)
        bound.close()

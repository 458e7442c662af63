"""HTTP on a socket that is bound before anything else starts, so a port in use is told at once."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from streamsched.config import url_here
from streamsched.domain.errors import ConfigurationError


def bind(
    host: str,
    port: int,
    *,
    host_by: str = "--host or STREAMSCHED_API_HOST",
    port_by: str = "--port or STREAMSCHED_API_PORT",
) -> socket.socket:
    """A bound socket; port 0 takes any free one. `host_by`, `port_by`: how people choose others.

    Raises:
        ConfigurationError: the port is in use, or the address is not this machine's; the message names the option.
    """
    found = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(512)
    except OSError as exc:
        if found is not None:
            found.close()
        if exc.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"port {port} of {host} is in use; choose another by {port_by}, or stop what uses it"
            ) from exc
        raise ConfigurationError(f"cannot listen on {host}:{port} ({exc.strerror}); see {host_by}") from exc
    return found


def url_of(bound: socket.socket) -> str:
    """Where a client on this machine finds it."""
    host, port = bound.getsockname()[:2]
    return url_here(host, port)


class _Server(uvicorn.Server):
    """Leaves signals to whoever composed the process, and says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._say_started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._say_started is not None:
            self._say_started()


class HttpServer:
    """Serves an application on a bound socket; `started` is called when it answers."""

    def __init__(self, api: FastAPI, bound: socket.socket, *, started: Callable[[], None] | None = None) -> None:
        self._bound = bound
        self._config = uvicorn.Config(
            api, lifespan="off", log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=5
        )
        self._started = started

    async def run(self) -> None:
        """Until cancelled; then requests in flight are finished (for at most five seconds). May be run again."""
        started, self._started = self._started, None
        server = _Server(self._config, started)
        serving = asyncio.create_task(server.serve(sockets=[self._bound.dup()]))
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await asyncio.wait((serving,), timeout=10)

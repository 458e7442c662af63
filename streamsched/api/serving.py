"""The HTTP server. Its socket is bound before anything else starts, so a port in use is reported at once."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette

from streamsched.api.bounds.connections import Connections, connection_class
from streamsched.domain.errors import ConfigurationError
from streamsched.setting_values import url_here


def bind(
    host: str,
    port: int,
    *,
    host_by: str = "--host or STREAMSCHED_API_HOST",
    port_by: str = "--port or STREAMSCHED_API_PORT",
) -> socket.socket:
    """A listening socket. Port 0 selects a free port. `host_by` and `port_by` name the options in error messages.

    Raises:
        ConfigurationError: the port is in use, or the address is not one of this machine.
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
                f"port {port} of {host} is in use; choose another one with {port_by}, or stop the process that uses it"
            ) from exc
        raise ConfigurationError(f"cannot listen on {host}:{port} ({exc.strerror}); see {host_by}") from exc
    return found


def url_of(bound: socket.socket) -> str:
    """The URL of the socket for clients on this machine."""
    host, port = bound.getsockname()[:2]
    return url_here(host, port)


class _Server(uvicorn.Server):
    """A uvicorn server that installs no signal handlers and calls `started` when it accepts requests."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_started is not None:
            self._on_started()


#: Seconds after which an idle connection is closed: longer than clients and balancers keep theirs (5 s of httpx, 60 s
#: of many balancers), or one of them would now and then send a request into a connection that is just being closed.
KEEP_ALIVE_S: Final = 75


class HttpServer:
    """Serves an application on a bound socket. `started` is called once, when it accepts requests; the functions in
    `api.state.closing` when it stops, to end responses that would go on.
    """

    def __init__(
        self,
        api: Starlette,
        bound: socket.socket,
        *,
        started: Callable[[], None] | None = None,
        connections: Connections | None = None,
    ) -> None:
        """`connections`: their limits; default: those of `api.bounds.connections`."""
        self._bound = bound
        self._api = api
        self._connections = connections or Connections()
        self._config = uvicorn.Config(
            api,
            http=connection_class(self._connections),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._started = started

    async def run(self) -> None:
        """Serves until cancelled, then waits up to five seconds for requests in flight. Can be called again."""
        started, self._started = self._started, None
        server = _Server(self._config, started)
        serving = asyncio.create_task(server.serve(sockets=[self._bound.dup()]))
        watching = asyncio.create_task(self._connections.watch())
        try:
            await asyncio.shield(serving)
        finally:
            watching.cancel()
            server.should_exit = True
            for close in getattr(self._api.state, "closing", ()):
                close()
            await asyncio.wait((serving,), timeout=10)

"""HTTP requests to one server that block, with the standard library: it is imported in a fraction of the time of httpx.

A connection is kept between requests. Redirects are not followed, so a token is sent to no other server.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from streamsched.domain.errors import ConfigurationError

#: Characters of a path that are sent as they are.
_PATH: Final = "/%:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response with any status, or why there is none.

    Attributes:
        status: 0 without a response.
        headers: names are in lower case.
        failure: why there is no response.
        sent: whether the server may have read the request.
    """

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    failure: str = ""
    sent: bool = True

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as UTF-8; other bytes as replacement characters."""
        return self.content.decode(errors="replace")

    @property
    def etag(self) -> str:
        return self.headers.get("etag", "")

    @property
    def retry_after(self) -> str:
        return self.headers.get("retry-after", "")

    def json(self) -> Any:
        """The body as a JSON value.

        Raises:
            ValueError: it is not JSON.
        """
        return json.loads(self.content)


class BlockingConnection:
    """A connection to one server, opened by the first request. For one thread at a time."""

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, timeout: float = 60.0, proxies: bool = True
    ) -> None:
        """Opens no connection.

        Args:
            url: of the server, and the beginning of each path.
            headers: of each request.
            timeout: seconds for connecting and for each read.
            proxies: whether those of the environment are used.

        Raises:
            ConfigurationError: it is not an `http(s)://host` URL.
        """
        self._server, self._headers, self._timeout = _split(url), dict(headers or {}), timeout
        self._proxy = _proxy_to(self._server) if proxies else None
        if self._proxy is not None and self._server.scheme == "http":
            self._headers |= _proxy_headers(self._proxy)
        self._kept: HTTPConnection | None = None

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Sends a request and reads the whole response. `timeout`: another than that of the connection."""
        seconds = self._timeout if timeout is None else timeout
        connection = self._kept = self._kept or self._make()
        try:
            _open(connection, seconds)
        except (OSError, HTTPException, ValueError) as exc:
            connection.close()
            return HttpResponse(0, failure=_failure(exc, seconds), sent=False)
        try:
            connection.request(method, self._target(path, params), content, {**self._headers, **(headers or {})})
            found = connection.getresponse()
            return HttpResponse(found.status, found.read(), _lower(found.headers))
        except (OSError, HTTPException, ValueError) as exc:
            connection.close()
            return HttpResponse(0, failure=_failure(exc, seconds))
        except BaseException:
            connection.close()  # it may be amid a response
            raise

    def follow(
        self, path: str, *, params: Sequence[tuple[str, str]], headers: Mapping[str, str], timeout: float
    ) -> Generator[str | HttpResponse]:
        """The lines of a response of 200 as they come, by a connection of its own; at last how it ended: the other
        response, or why there is none. `timeout`: seconds for connecting and for each line.
        """
        connection = self._make()
        try:
            _open(connection, timeout)
            connection.request("GET", self._target(path, params), None, {**self._headers, **headers})
            found = connection.getresponse()
            if found.status == 200:
                while line := found.readline():
                    yield line.rstrip(b"\r\n").decode(errors="replace")
                yield HttpResponse(0, failure="the connection ended")
            else:
                yield HttpResponse(found.status, found.read(), _lower(found.headers))
        except (OSError, HTTPException, ValueError) as exc:
            yield HttpResponse(0, failure=_failure(exc, timeout))
        finally:
            connection.close()

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._kept is not None:
            self._kept.close()

    def _make(self) -> HTTPConnection:
        server, way = self._server, self._proxy or self._server
        host = way.hostname or ""
        if server.scheme == "http":
            return HTTPConnection(host, way.port)
        import ssl  # noqa: PLC0415 (takes a while, and most servers of one machine have none)

        made = HTTPSConnection(host, way.port, context=ssl.create_default_context())
        if self._proxy is not None:
            made.set_tunnel(server.hostname or "", server.port, _proxy_headers(self._proxy))
        return made

    def _target(self, path: str, params: Sequence[tuple[str, str]]) -> str:
        target = quote(self._server.path.rstrip("/") + path, safe=_PATH) + (f"?{urlencode(params)}" if params else "")
        if self._proxy is None or self._server.scheme == "https":
            return target
        return f"{self._server.scheme}://{self._server.netloc}{target}"


def _split(url: str) -> SplitResult:
    """Raises:
    ConfigurationError: it is not the URL of a server.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise ConfigurationError(f"'{url}' is not the URL of a server, such as http://127.0.0.1:8765")


def _open(connection: HTTPConnection, timeout: float) -> None:
    """Connects, again when the server has closed an idle connection."""
    if connection.sock is not None:
        waiting = select.poll()
        waiting.register(connection.sock, select.POLLIN)
        if waiting.poll(0):  # nothing was asked, so it is the end
            connection.close()
    connection.timeout = timeout
    if connection.sock is None:
        connection.connect()
    else:
        connection.sock.settimeout(timeout)


def _failure(error: Exception, timeout: float) -> str:
    return f"no answer within {timeout:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _proxy_to(server: SplitResult) -> SplitResult | None:
    """The proxy of the environment for a server; None: there is none."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 (takes a while)

    found = getproxies().get(server.scheme) or getproxies().get("all")
    if not found or proxy_bypass(server.netloc.rpartition("@")[2]):
        return None
    return _split(found if "://" in found else f"http://{found}")


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    from base64 import b64encode  # noqa: PLC0415
    from urllib.parse import unquote  # noqa: PLC0415

    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(user.encode()).decode()}"}

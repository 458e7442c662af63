"""Sends HTTP requests for runs and tasks.

Requests are built and checked by httpx and sent by aiohttp, which sends five times as many a second (`bench.recovery`).
Of many requests to one target, httpx builds the first (`PreparedRequest.from_request`); the others are made from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, AbstractStreamWriter
from aiohttp.payload import BytesPayload
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from streamsched.domain.addresses import Network, refused_host
from streamsched.process.outgoing import RefusedAddressError, goes_direct, guarded_sockets

#: Bytes read of a response body, and characters of it that become the reason of an end.
_BODY: Final = 4096
_REASON: Final = 300
#: Characters of a `Content-Encoding` that a reason has.
_ENCODING: Final = 20
#: Headers that aiohttp would add; a request has those of its definition, and its body is not to be compressed.
_NOT_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a request. `status`: None without a response. `text`: status and beginning of the body, for people,
    or why there is no response. `connected`: False when there was no connection, so nothing was sent. `withheld`: it
    was no longer to be sent when there was a connection, so nothing was sent. `cut`: the connection broke before
    the whole answer was there.
    """

    status: int | None
    text: str
    connected: bool = True
    withheld: bool = False
    cut: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether it is a 2xx response."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request as it is sent. `headers` has all of them, in the order in which they are sent."""

    method: str
    url: URL
    headers: Sequence[tuple[str, str]]
    content: bytes

    @classmethod
    def from_request(cls, request: httpx.Request) -> Self:
        """The request with its URL, headers and body as they are sent."""
        headers = [(name.decode(), value.decode()) for name, value in request.headers.raw]
        return cls(request.method, URL(str(request.url), encoded=True), headers, request.content)


class _WithheldError(Exception):
    """The body is no longer to be sent."""


class _CheckedBody(BytesPayload):
    """A body whose first byte is written, with the headers, only if `allowed` still holds: the last moment there is."""

    def __init__(self, content: bytes, allowed: Callable[[], bool]) -> None:
        super().__init__(content)
        self._allowed = allowed
        self.withheld = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._allowed():
            self.withheld = True
            raise _WithheldError
        await super().write_with_length(writer, content_length)


class HttpClient:
    """Sends requests, any number at a time, without cookies, and follows no redirects. It belongs to one event loop and
    opens its session with the first request. It reads no variables of the environment.

    Args:
        networks: it connects to public addresses and to these only.
        proxy: URL of the proxy through which it sends to addresses that are not in `networks`; empty: none. The proxy
            resolves names again, and what it connects to is its own affair.
        resolver: of names; None: that of the system.
    """

    def __init__(
        self, networks: Sequence[Network], *, proxy: str = "", resolver: AbstractResolver | None = None
    ) -> None:
        self._networks = networks
        self._proxy = proxy
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None
        self._to_proxy: aiohttp.ClientSession | None = None

    async def send(
        self,
        request: httpx.Request | PreparedRequest,
        timeout: timedelta,
        *,
        allowed: Callable[[], bool] | None = None,
    ) -> HttpAnswer:
        """Sends a request and reads the beginning of the response. Does not raise for what the far end does. `allowed`
        is asked when there is a connection and nothing is written yet, if the request has a body.
        """
        body: Any = None
        try:
            prepared = request if isinstance(request, PreparedRequest) else PreparedRequest.from_request(request)
            body = prepared.content or None
            if body is not None and allowed is not None:
                body = _CheckedBody(body, allowed)
            host = prepared.url.host or ""
            if why := refused_host(host, self._networks):
                return HttpAnswer(None, f"not sent: {why}", connected=False)
            async with (
                asyncio.timeout(timeout.total_seconds()),
                (await self._session_to(host)).request(
                    prepared.method,
                    prepared.url,
                    headers=prepared.headers,
                    data=body,
                    allow_redirects=False,
                ) as response,
            ):
                text = await _beginning(response)
        except TimeoutError:
            return HttpAnswer(None, f"no answer within {timeout.total_seconds():g} s")
        except RefusedAddressError as exc:
            return HttpAnswer(None, f"not sent: {exc.strerror}", connected=False)
        except aiohttp.ClientConnectorError as exc:
            if isinstance(exc.os_error, RefusedAddressError):
                return HttpAnswer(None, f"not sent: {exc.os_error.strerror}", connected=False)
            return HttpAnswer(None, f"no answer: {exc.os_error}", connected=False)
        except aiohttp.ClientResponseError as exc:
            return HttpAnswer(None, f"its answer is not HTTP: {' '.join(exc.message.split())[:_REASON]}")
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            if isinstance(body, _CheckedBody) and body.withheld:
                return HttpAnswer(None, "it was not sent", withheld=True)
            cut = isinstance(exc, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError)
            return HttpAnswer(None, f"no answer: {str(exc) or type(exc).__name__}", cut=cut)
        return HttpAnswer(response.status, f"HTTP {response.status}" + (f": {text}" if text else ""))

    async def close(self) -> None:
        """Closes its connections; the next request opens new ones."""
        sessions = [each for each in (self._session, self._to_proxy) if each is not None]
        self._session = self._to_proxy = None
        for each in sessions:
            await each.close()

    async def _session_to(self, host: str) -> aiohttp.ClientSession:
        """Raises:
        RefusedAddressError: there is a proxy, and it is not to be asked for this host.
        """
        if self._proxy and not await goes_direct(host, self._networks):
            self._to_proxy = self._to_proxy or _open_session(aiohttp.TCPConnector(limit=0), self._proxy)
            return self._to_proxy
        if self._session is None:
            sockets = guarded_sockets(self._networks)
            self._session = _open_session(
                aiohttp.TCPConnector(limit=0, resolver=self._resolver or ThreadedResolver(), socket_factory=sockets)
            )
        return self._session


def _open_session(connector: aiohttp.TCPConnector, proxy: str | None = None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_NOT_ADDED,
        auto_decompress=False,
        proxy=proxy,
    )


async def _beginning(answer: aiohttp.ClientResponse) -> str:
    """The beginning of a response body, on one line. A compressed body, for which no request asks, is not unpacked: a
    few bytes of it can be 100 MB.
    """
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        return f"a body encoded as {encoding[:_ENCODING]!r}"
    read = b""
    async for chunk in answer.content.iter_chunked(_BODY):
        read += chunk
        if len(read) >= _BODY:
            break
    return " ".join(read[:_BODY].decode(errors="replace").split())[:_REASON]

"""Sends HTTP requests for runs and tasks.

Requests are built and checked by httpx and sent by aiohttp, which sends five times as many a second (`bench.recovery`).
Of many requests to one target, httpx builds the first (`PreparedRequest.of`), and the others are made from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from yarl import URL

from streamsched.domain.webhooks.addresses import Network, refused_host
from streamsched.process.public_resolver import PublicResolver

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
    was no longer to be sent when there was a connection, so nothing was sent.
    """

    status: int | None
    text: str
    connected: bool = True
    withheld: bool = False

    @property
    def accepted(self) -> bool:
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
    def of(cls, request: httpx.Request) -> Self:
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
    """Sends requests, any number at a time, without cookies. It belongs to one event loop, opens its session with the
    first request, and uses the proxies that the environment names then.

    `networks`: None: it connects to any address; else to public ones and these. Where a proxy is used, that connects.
    """

    def __init__(self, networks: Sequence[Network] | None = None) -> None:
        self._networks = networks
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, str] = {}

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
        session = self._session or self._open()
        body: Any = None
        try:
            prepared = request if isinstance(request, PreparedRequest) else PreparedRequest.of(request)
            body = prepared.content or None
            if body is not None and allowed is not None:
                body = _CheckedBody(body, allowed)
            if self._networks is not None and (why := refused_host(prepared.url.host or "", self._networks)):
                return HttpAnswer(None, f"not sent: {why}", connected=False)
            async with (
                asyncio.timeout(timeout.total_seconds()),
                session.request(
                    prepared.method,
                    prepared.url,
                    headers=prepared.headers,
                    data=body,
                    allow_redirects=False,
                    proxy=self._proxy(prepared.url),
                ) as response,
            ):
                text = await _beginning(response)
        except TimeoutError:
            return HttpAnswer(None, f"no answer within {timeout.total_seconds():g} s")
        except aiohttp.ClientConnectorError as exc:
            return HttpAnswer(None, f"no answer: {exc.os_error}", connected=False)
        except aiohttp.ClientResponseError as exc:
            return HttpAnswer(None, f"its answer is not HTTP: {' '.join(exc.message.split())[:_REASON]}")
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            if isinstance(body, _CheckedBody) and body.withheld:
                return HttpAnswer(None, "it was not sent", withheld=True)
            return HttpAnswer(None, f"no answer: {str(exc) or type(exc).__name__}")
        return HttpAnswer(response.status, f"HTTP {response.status}" + (f": {text}" if text else ""))

    async def close(self) -> None:
        """Closes its connections; the next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        self._proxies = getproxies()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=self._resolver()),
            timeout=aiohttp.ClientTimeout(),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_ADDED,
            auto_decompress=False,
        )
        return self._session

    def _resolver(self) -> PublicResolver | None:
        if self._networks is None:
            return None
        proxies = {host for each in self._proxies.values() if (host := URL(each).host)}
        return PublicResolver(self._networks, lambda: proxies)

    def _proxy(self, url: URL) -> str | None:
        """The proxy for this address. `trust_env` would also send the passwords of the user's .netrc."""
        found = self._proxies.get(url.scheme)
        return None if found is None or url.host is None or proxy_bypass(url.host) else found


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

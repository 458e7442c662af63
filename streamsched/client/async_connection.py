"""The connections of the client with `await`, as `process.http_connection` has one that blocks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import httpx

from streamsched.process.http_connection import HttpResponse


class AsyncConnection:
    """Connections to one server. Several tasks of one loop may use it at a time."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        timeout: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Opens no connection. As `BlockingConnection`; `transport`: how requests are sent; None: over the network."""
        self._timeout = timeout
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=transport)

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]],
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> HttpResponse:
        """Sends a request and reads the whole response."""
        try:
            found = await self._http.request(method, path, params=list(params), content=content, headers=headers)
        except httpx.ConnectError as exc:
            return HttpResponse(0, failure=str(exc) or type(exc).__name__, sent=False)
        except httpx.HTTPError as exc:
            return HttpResponse(0, failure=str(exc) or type(exc).__name__)
        return HttpResponse(found.status_code, found.content, found.headers)

    async def follow(
        self, path: str, *, params: Sequence[tuple[str, str]], headers: Mapping[str, str], timeout: float
    ) -> AsyncGenerator[str | HttpResponse]:
        """The lines of a response of 200 as they come; at last how it ended: the other response, or why there is none.
        `timeout`: seconds for each line.
        """
        waits = httpx.Timeout(self._timeout, read=timeout)
        try:
            async with self._http.stream("GET", path, params=list(params), headers=headers, timeout=waits) as found:
                if found.status_code != 200:
                    yield HttpResponse(found.status_code, await found.aread(), found.headers)
                    return
                rest = b""
                async for part in found.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        yield line.rstrip(b"\r").decode(errors="replace")
            yield HttpResponse(0, failure="the connection ended")
        except httpx.HTTPError as exc:
            yield HttpResponse(0, failure=str(exc) or type(exc).__name__)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

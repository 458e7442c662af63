"""Requests to an OpenID provider: bounded in time and size, without redirects, and with TLS when its issuer has it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import httpx
import orjson

from streamsched.domain.errors import UnavailableError

#: Of each step of a request, and of the whole.
_STEP_S: Final = 5.0
_WHOLE_S: Final = 15.0
_MOST_BYTES: Final = 1024 * 1024
_DISCOVERY: Final = "/.well-known/openid-configuration"


class ProviderAnswer(NamedTuple):
    """An answer whose body is an object of JSON."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_successful(self) -> bool:
        return 200 <= self.status < 300


class ProviderHttp:
    """Reads the documents of one issuer. Each method raises UnavailableError when the provider cannot be reached, or
    answers something else.
    """

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._tls: ssl.SSLContext | None = None

    async def discovery(self) -> Mapping[str, Any]:
        """The provider's discovery document."""
        found = await self.read(self._issuer.rstrip("/") + _DISCOVERY)
        if found.get("issuer") != self._issuer:
            raise UnavailableError(f"the OpenID provider at {self._issuer} calls itself another issuer")
        return found

    def address(self, discovery: Mapping[str, Any], member: str, *, what: str) -> str:
        """A URL that the discovery document names; `what` it leads to, for the error message."""
        address = discovery.get(member)
        if not isinstance(address, str) or not address.startswith(("https://", "http://")):
            raise UnavailableError(f"the OpenID provider at {self._issuer} names no {what}")
        if self._issuer.startswith("https://") and not address.startswith("https://"):
            raise UnavailableError(f"the OpenID provider at {self._issuer} names {what} without TLS")
        return address

    async def read(self, url: str) -> Mapping[str, Any]:
        """The document at this URL."""
        answer = await self._ask("GET", url)
        if not answer.is_successful:
            raise UnavailableError(f"the OpenID provider cannot be read at {url}: it answers {answer.status}")
        return answer.body

    async def send(
        self, url: str, form: Mapping[str, str], *, credentials: tuple[str, str] | None = None
    ) -> ProviderAnswer:
        """The answer to a form, also one of an error. `credentials`: name and password of the client."""
        auth = None if credentials is None else httpx.BasicAuth(*credentials)
        return await self._ask("POST", url, data=dict(form), auth=auth)

    async def _ask(self, method: str, url: str, **request: Any) -> ProviderAnswer:
        headers = {"Accept": "application/json"}
        self._tls = self._tls or httpx.create_ssl_context(trust_env=False)  # takes 40 ms
        try:
            async with (
                asyncio.timeout(_WHOLE_S),
                httpx.AsyncClient(timeout=_STEP_S, trust_env=False, verify=self._tls) as client,
                client.stream(method, url, headers=headers, **request) as response,
            ):
                return ProviderAnswer(response.status_code, await _object(url, response))
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as exc:
            reason = str(exc) or type(exc).__name__
            raise UnavailableError(f"the OpenID provider cannot be read at {url}: {reason}") from exc


async def _object(url: str, response: httpx.Response) -> Mapping[str, Any]:
    """The body; empty when it is the one of an error and no object."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise UnavailableError(f"{url} answers more than {_MOST_BYTES} bytes")
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict):
        return found
    if response.is_success:
        raise UnavailableError(f"{url} answers no object")
    return {}

"""HTTP requests to cluster managers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

from streamsched.domain.errors import UnavailableError

_TIMEOUT_S: Final = 10.0
#: Characters of an answer that a reason has.
_SHOWN: Final = 300


class NotSentError(UnavailableError):
    """There was no connection, so the far end has got nothing."""


@contextmanager
def before_submission() -> Iterator[None]:
    """Whatever fails here fails before anything was sent."""
    try:
        yield
    except UnavailableError as exc:
        raise NotSentError(str(exc)) from exc


@contextmanager
def after_submission() -> Iterator[None]:
    """Whatever fails here leaves open what was sent."""
    try:
        yield
    except NotSentError as exc:
        raise UnavailableError(str(exc)) from exc


class Cluster:
    """A cluster manager's HTTP interface.

    Args:
        headers, verify: as of httpx.
        transport: for tests with a recorded conversation.
    """

    def __init__(
        self,
        headers: Mapping[str, str] | None = None,
        verify: str | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "headers": dict(headers or {}),
            "verify": verify,
            "transport": transport,
            "trust_env": False,
            "follow_redirects": True,
        }

    async def send(
        self, method: str, url: str, content: Any = None, *, timeout_s: float = _TIMEOUT_S
    ) -> httpx.Response:
        """The response, of any status below 500, for which it waits so long.

        Raises:
            NotSentError: no connection.
            UnavailableError: no answer, or a status of 500 and more.
        """
        try:
            async with httpx.AsyncClient(**self._options) as client:
                answer = await client.request(method, url, json=content, timeout=timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise NotSentError(f"{url} cannot be reached: {str(exc) or type(exc).__name__}") from exc
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as exc:
            raise UnavailableError(f"{url} does not answer: {str(exc) or type(exc).__name__}") from exc
        if answer.status_code >= 500:
            raise UnavailableError(f"{url}: {format_answer(answer)}")
        return answer

    async def json(self, method: str, url: str, content: Any = None) -> Any:
        """The JSON of a 2xx response; None of a 404.

        Raises:
            UnavailableError: there is none.
        """
        answer = await self.send(method, url, content)
        if answer.status_code == 404:
            return None
        if not answer.is_success:
            raise UnavailableError(f"{url}: {format_answer(answer)}")
        return decode_answer(answer)


def decode_answer(answer: httpx.Response) -> Any:
    """The JSON of a response.

    Raises:
        UnavailableError: the response is not JSON.
    """
    try:
        return answer.json()
    except ValueError as exc:
        raise UnavailableError(f"{answer.url} does not answer JSON: {format_answer(answer)}") from exc


def format_answer(answer: httpx.Response) -> str:
    """Status and beginning of the body, on one line."""
    return f"HTTP {answer.status_code} {' '.join(answer.text.split())[:_SHOWN]}".rstrip()

"""Requests to the API by readers and writers of datasets, with the token that emitters send."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from streamsched.codec.problem import COME_BACK
from streamsched.domain.errors import ConfigurationError, ConflictError, UnavailableError
from streamsched.emit.destination import URL, find_destination, token_for
from streamsched.process.http_connection import BlockingConnection

_TIMEOUT: Final = 30.0
_JSON: Final = {"Content-Type": "application/json"}


def api_url(environ: Mapping[str, str] | None = None, *, why: str) -> str:
    """The URL of the API of this process's installation (`emit.destination`). `why`: what is asked of it.

    Raises:
        ConfigurationError: there is none; a process that sends events to the log needs `STREAMSCHED_URL` besides.
    """
    env = os.environ if environ is None else environ
    found = find_destination(env)
    for url in (found.url if found else "", env.get(URL, "")):
        if url.startswith(("http://", "https://")):
            return url.rstrip("/")
    raise ConfigurationError(f"{why} are kept by the API, and its URL is not known: set {URL}")


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer of the API. `kind` and `name`: of what is missing, for a 404."""

    status: int
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))


class ApiClient:
    """Sends requests to one API, each by a connection of its own, so that threads can share it."""

    def __init__(self, url: str, environ: Mapping[str, str] | None = None) -> None:
        """Opens no connection."""
        self.url = url.rstrip("/")
        token = token_for(url, os.environ if environ is None else environ)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(
        self,
        method: str,
        path: str,
        *,
        about: str,
        has: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Answered:
        """The answer to a request that succeeded, or whose subject is missing (404 with a `kind`).

        Args:
            about: the subject, for messages.
            has: a field that every answer of the API to such a request has.

        Raises:
            UnavailableError: the API does not answer.
            ConflictError: it answers 409.
            ConfigurationError: it is not a streamsched API, denies access or refuses the request.
        """
        content = None if body is None else json.dumps(body).encode()
        query = tuple((params or {}).items())
        with closing(BlockingConnection(self.url, self._headers, timeout=_TIMEOUT)) as connection:
            answer = connection.send(method, path, params=query, content=content, headers=_JSON if content else None)
        if not answer.status:
            raise UnavailableError(f"no streamsched API at {self.url} ({answer.failure})")
        try:
            found = answer.json()
        except ValueError:
            found = None
        if answer.is_success and isinstance(found, dict) and has in found:
            return Answered(answer.status, found)
        detail = str(found.get("detail", "")) if isinstance(found, dict) else ""
        why = f"{self.url} answered {answer.status} to {method} of {about}: {detail}".rstrip(": ")
        if answer.status == 404 and isinstance(found, dict) and found.get("kind"):
            return Answered(404, found)
        if answer.status == 409:
            raise ConflictError(why)
        if answer.status >= 500 or answer.status in COME_BACK:
            raise UnavailableError(why)
        raise ConfigurationError(why)

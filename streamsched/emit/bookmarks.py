"""Bookmarks of readers through the API: `GET` and `PUT /v1/bookmarks/<name>`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from streamsched.domain.errors import ConfigurationError, ConflictError, NotFoundError, UnavailableError
from streamsched.emit.destination import URL, find_destination, token_for

_TIMEOUT: Final = 30.0


def api_url(environ: Mapping[str, str] | None = None) -> str:
    """The URL of the API of this process's installation (`emit.destination`).

    Raises:
        ConfigurationError: there is none; a process that sends events to the log needs `STREAMSCHED_URL` besides.
    """
    env = os.environ if environ is None else environ
    found = find_destination(env)
    for url in (found.url if found else "", env.get(URL, "")):
        if url.startswith(("http://", "https://")):
            return url.rstrip("/")
    raise ConfigurationError(f"bookmarks are kept by the API, and its URL is not known: set {URL}")


class BookmarkClient:
    """Reads and sets bookmarks, with the token that emitters send."""

    def __init__(self, url: str, environ: Mapping[str, str] | None = None) -> None:
        """Opens no connection."""
        self._url = url.rstrip("/")
        token = token_for(url, os.environ if environ is None else environ)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, name: str) -> tuple[str, int]:
        """Value and revision; "" and 0 when there is none.

        Raises:
            UnavailableError: the API does not answer.
            ConfigurationError: it is not a streamsched API, or it denies access.
        """
        found = self._ask("GET", name, None)
        return (str(found["value"]), int(found["revision"])) if found else ("", 0)

    def set(self, name: str, value: str, revision: int) -> int:
        """Sets the value if the revision is still this one; returns the new revision. To repeat a failed call is safe.

        Raises:
            ConflictError: another process has set it since.
            InvalidError, UnavailableError, ConfigurationError: as `get`.
        """
        return int(self._ask("PUT", name, {"value": value, "revision": revision})["revision"])

    def get_by_run(self, name: str, run: str) -> tuple[str, int, str | None]:
        """Value, revision, and what the run sets by its success. Raises as `get`."""
        found = self._ask("GET", name, None, {"run": run})
        pending = found["pending"]
        return str(found["value"]), int(found["revision"]), None if pending is None else str(pending)

    def set_by_run(self, name: str, value: str, revision: int, run: str) -> None:
        """Sets the value when the run completes. Raises as `set`, and `NotFoundError` when there is no such run."""
        self._ask("PUT", name, {"value": value, "revision": revision, "run": run})

    def cues(self, name: str) -> int:
        """The number of cues that readers of the bookmark were given. Raises as `get`."""
        return int(self._ask("GET", name, None, below="/cue").get("cues", 0))

    def _ask(
        self,
        method: str,
        name: str,
        body: Mapping[str, Any] | None,
        params: Mapping[str, str] | None = None,
        *,
        below: str = "",
    ) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 (takes a while, and most jobs have no bookmark)

        try:
            answer = httpx.request(
                method,
                f"{self._url}/v1/bookmarks/{quote(name, safe='')}{below}",
                json=body,
                params=params,
                headers=self._headers,
                timeout=_TIMEOUT,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise UnavailableError(f"no streamsched API at {self._url} ({exc or type(exc).__name__})") from exc
        try:
            found = answer.json()
        except ValueError:
            found = None
        if answer.is_success and isinstance(found, dict) and ("revision" in found or "cues" in found):
            return found
        detail = str(found.get("detail", "")) if isinstance(found, dict) else ""
        why = f"{self._url} answered {answer.status_code} to {method} of bookmark '{name}': {detail}".rstrip(": ")
        if answer.status_code == 404 and isinstance(found, dict) and found.get("kind") == "bookmark":
            return {}
        if answer.status_code == 404 and isinstance(found, dict) and found.get("kind") == "run":
            raise NotFoundError("run", str(found.get("name", "")), hint=f"at {self._url}")
        if answer.status_code == 409:
            raise ConflictError(why)
        if answer.status_code >= 500 or answer.status_code in (408, 425, 429):
            raise UnavailableError(why)
        raise ConfigurationError(why)

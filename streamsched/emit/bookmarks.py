"""Bookmarks of readers through the API: `GET` and `PUT /v1/bookmarks/<name>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from streamsched.domain.errors import NotFoundError
from streamsched.emit import api_client
from streamsched.emit.api_client import ApiClient


def api_url(environ: Mapping[str, str] | None = None) -> str:
    """The URL of the API that keeps the bookmarks. See `emit.api_client.api_url`."""
    return api_client.api_url(environ, why="bookmarks")


class BookmarkClient:
    """Reads and sets bookmarks, with the token that emitters send."""

    def __init__(self, url: str, environ: Mapping[str, str] | None = None) -> None:
        """Opens no connection."""
        self._api = ApiClient(url, environ)

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
        return int(self._ask("GET", name, None, below="/cue", has="cues").get("cues", 0))

    def _ask(
        self,
        method: str,
        name: str,
        body: Mapping[str, Any] | None,
        params: Mapping[str, str] | None = None,
        *,
        below: str = "",
        has: str = "revision",
    ) -> Mapping[str, Any]:
        answer = self._api.ask(
            method,
            f"/v1/bookmarks/{quote(name, safe='')}{below}",
            about=f"bookmark '{name}'",
            has=has,
            body=body,
            params=params,
        )
        if answer.status != 404:
            return answer.body
        if answer.kind != "bookmark":
            raise NotFoundError(answer.kind, str(answer.body.get("name", "")), hint=f"at {self._api.url}")
        return {}

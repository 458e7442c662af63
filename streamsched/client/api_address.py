"""Which API a client asks, and with which token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from streamsched.domain.errors import ConfigurationError
from streamsched.emit.destination import NO_DESTINATION, URL, find_destination, token_for


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """The URL of an API, and the headers of each request."""

    url: str
    headers: Mapping[str, str]

    @classmethod
    def find(cls, url: str | None, token: str | None, environ: Mapping[str, str] | None = None) -> Self:
        """That URL, or the one of this process's installation (`emit.destination`).

        Raises:
            ConfigurationError: there is none, or it is not one of HTTP.
        """
        env = os.environ if environ is None else environ
        found = url
        if found is None:
            place = find_destination(env)
            found = next((each for each in (place.url if place else "", env.get(URL, "")) if _http(each)), None)
            if found is None:
                raise ConfigurationError(f"no URL was given, and {NO_DESTINATION}")
        if not _http(found):
            raise ConfigurationError(f"'{found}' is not the URL of an API, such as http://127.0.0.1:8765")
        own = token_for(found, env) if token is None else token
        return cls(found.rstrip("/"), {"Authorization": f"Bearer {own}"} if own else {})


def _http(url: str) -> bool:
    return url.startswith(("http://", "https://"))

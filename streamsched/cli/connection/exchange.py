"""One HTTP request and its response, with the standard library: it is imported in a fraction of the time of httpx.

Proxies are those of the environment. Redirects are not followed, so a token is sent to no other server.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode

from streamsched.domain.errors import UnavailableError

#: Characters of a path that are sent as they are.
_PATH: Final = "/%:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class Response:
    """A response with any status. Names of `headers` are in lower case."""

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as UTF-8; other bytes as replacement characters."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """The body as a JSON value.

        Raises:
            ValueError: it is not JSON.
        """
        return json.loads(self.content)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Returns None: a redirect is a response like any other."""


def exchange(
    method: str,
    url: str,
    *,
    query: Mapping[str, Any],
    content: bytes | None,
    headers: Mapping[str, str],
    timeout: float,
) -> Response:
    """Sends a request and reads the whole response.

    Args:
        url: base and path, unescaped.
        query: values are texts, numbers, booleans, or lists of them.
        timeout: seconds for connecting and for each read.

    Raises:
        UnavailableError: no response.
    """
    base, _, path = url.partition("://")
    host, _, rest = path.partition("/")
    target = f"{base}://{host}/{quote(rest, safe=_PATH)}"
    if query:
        target += "?" + urlencode({name: _text(value) for name, value in query.items()}, doseq=True)
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        request = urllib.request.Request(target, data=content, headers=dict(headers), method=method)
        with opener.open(request, timeout=timeout) as found:
            return Response(found.status, found.read(), _lower(found.headers))
    except urllib.error.HTTPError as exc:
        with exc:
            return Response(exc.code, exc.read(), _lower(exc.headers))
    except urllib.error.URLError as exc:
        if isinstance(exc.reason, TimeoutError):
            raise UnavailableError(f"{base}://{host} did not respond within {timeout:g} s") from exc
        raise _unreachable_error(f"{base}://{host}", exc.reason) from exc
    except TimeoutError as exc:
        raise UnavailableError(f"{base}://{host} did not respond within {timeout:g} s") from exc
    except (OSError, HTTPException, ValueError) as exc:
        raise _unreachable_error(f"{base}://{host}", exc) from exc


def _unreachable_error(base: str, why: object) -> UnavailableError:
    return UnavailableError(
        f"no streamsched API at {base} ({why}); start one with `streamsched dev`, or set another URL with --url"
    )


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _text(value: Any) -> Any:
    """Booleans as JSON writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return [_text(each) for each in value] if isinstance(value, list | tuple) else value

"""Refuses requests that a page of another site makes a browser send (ADR 33), before any other code reads them.

| condition | status |
|---|---|
| the Host header is missing, repeated, or not a host | 400 |
| the Host header names a host that is not allowed (DNS rebinding) | 421 |
| a page of another origin made the request (`Origin`, `Sec-Fetch-Site`) | 403 |
| the request has a body of a content type that this API does not read | 415 |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from streamsched.api.allowed_hosts import AllowedHosts, Authority
from streamsched.api.body import LINES
from streamsched.api.problems import refusal
from streamsched.api.routing.dialect import HttpDialect
from streamsched.telemetry.metrics import Metrics

_VARIABLE: Final = "STREAMSCHED_API_ALLOWED_HOSTS"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_OWN_SITE: Final = frozenset({"same-origin", "none"})
_FORM: Final = "application/x-www-form-urlencoded"
_EVENTS: Final = "/v1/events"
#: Of the pages, whose forms browsers send. A page of another origin is refused before (`_cross_site`), and each form
#: has a token of its session.
_PAGES: Final = "/ui/"
#: The content type of a bundle, and the paths that read it.
_ARCHIVE: Final = "application/x-tar"
_BUNDLES: Final = re.compile(r"/v1/namespaces/[^/]+/bundles/")


class _Refused(NamedTuple):
    status: HTTPStatus
    detail: str


class _Headers:
    """The headers of a request; each name has all its values."""

    def __init__(self, scope: Scope) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def all(self, name: str) -> Sequence[str]:
        return self._values.get(name, ())

    def first(self, name: str) -> str:
        return self._values.get(name, [""])[0].strip()

    @property
    def from_browser(self) -> bool:
        """Whether the headers show that a page in a browser made the request. Browsers send `Origin` with every
        cross-site request that can change something, and since 2023 `Sec-Fetch-Site` to loopback and to HTTPS.
        """
        return "origin" in self or "sec-fetch-site" in self


class RequestGuard:
    """ASGI middleware. It must be the outermost of an application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: AllowedHosts,
        dialects: Collection[HttpDialect] = (),
        metrics: Metrics | None = None,
    ) -> None:
        """`dialects`: which bodies they read, and how their errors look."""
        self._app = app
        self._dialects = dialects
        self._hosts = hosts
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _Headers(scope)
        scope, target = _origin_form(scope)
        refused = self._refusal(scope, headers, target)
        if refused is None:
            await self._app(scope, receive, send)
            return
        if self._metrics is not None:
            self._metrics.add("http_requests_refused_total", status=str(int(refused.status)))
        answer = refusal(self._dialects, scope["path"], refused.status, refused.detail, retriable=False)
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope, headers: _Headers, target: str | None) -> _Refused | None:
        values = headers.all("host")
        if len(values) != 1:
            number = "no Host header" if not values else f"{len(values)} Host headers"
            return _Refused(HTTPStatus.BAD_REQUEST, f"the request has {number}; it must have one")
        host = Authority.parse(values[0] if target is None else target)
        if host is None:
            return _Refused(HTTPStatus.BAD_REQUEST, "the Host header must be host or host:port")
        if not self._hosts.accepts(host.host):
            return _Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this API does not accept requests for host '{host.host}'; if clients reach it under that name, set "
                f"{_VARIABLE}={host.host} (a comma-separated list)",
            )
        return self._cross_site(scope["method"], headers, host) or _unreadable(scope, headers, self._dialects)

    def _cross_site(self, method: str, headers: _Headers, host: Authority) -> _Refused | None:
        for origin in headers.all("origin"):
            if not self._same_origin(origin.strip(), host):
                return _Refused(
                    HTTPStatus.FORBIDDEN,
                    f"a page of origin '{origin[:200]}' made this request, and this API accepts only its own origin; "
                    f"if a proxy serves the API under that origin, set {_VARIABLE} to its host name",
                )
        site = headers.first("sec-fetch-site").lower()
        if not site or site in _OWN_SITE:
            return None
        if method in {"GET", "HEAD"} and headers.first("sec-fetch-mode").lower() == "navigate":
            return None  # a link: the browser shows the response, the page cannot read it
        return _Refused(HTTPStatus.FORBIDDEN, f"a page of another origin made this request (Sec-Fetch-Site: {site})")

    def _same_origin(self, origin: str, host: Authority) -> bool:
        scheme, separator, rest = origin.partition("://")
        authority = Authority.parse(rest) if separator else None
        port = _DEFAULT_PORTS.get(scheme.lower())
        if authority is None or port is None:
            return False
        return authority.same_as(host, default_port=port) or self._hosts.accepts_origin(authority.host)


def _unreadable(scope: Scope, headers: _Headers, dialects: Collection[HttpDialect]) -> _Refused | None:
    """The refusal of a request whose body has a content type that the API does not read; None when it is accepted."""
    if scope["method"] in {"GET", "HEAD", "OPTIONS"} or not _has_body(headers):
        return None
    path = scope["path"]
    if path == _EVENTS and "ce-specversion" in headers:
        return None  # a CloudEvent in binary mode; the header makes browsers send a preflight, which is refused
    values = headers.all("content-type")
    types = {text.partition(";")[0].strip().lower() for text in values} - {""}
    if not types and not headers.from_browser:
        return None
    if len(types) == 1:
        (only,) = types
        if only == "application/json" or (only.startswith("application/") and only.endswith("+json")):
            return None
        spoken = [each for each in dialects if path.startswith(each.prefix)]
        if only == _FORM and any(each.reads_forms for each in spoken) and not headers.from_browser:
            return None  # the default of Java's HttpURLConnection, and of curl
        if only == _FORM and path.startswith(_PAGES):
            return None
        if only == _ARCHIVE and _BUNDLES.match(path):
            return None  # browsers send a preflight for it, which is refused
        if only == LINES and any(each.reads_lines for each in spoken):
            return None  # browsers send a preflight for it, which is refused
    given = f"Content-Type {', '.join(sorted(types))}" if types else "no Content-Type"
    more = ", application/cloudevents+json or application/cloudevents-batch+json" if path == _EVENTS else ""
    return _Refused(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"the body has {given}; send the header 'Content-Type: application/json'{more} "
        "(with curl: -H 'Content-Type: application/json')",
    )


def _has_body(headers: _Headers) -> bool:
    return "transfer-encoding" in headers or headers.first("content-length") not in {"", "0"}


def _origin_form(scope: Scope) -> tuple[Scope, str | None]:
    """The request with a path as its target, and the authority of an absolute target (`GET http://host/path`), which
    takes precedence over the Host header; None when the target is a path.
    """
    path = scope["path"]
    if path.startswith("/") or "://" not in path:
        return scope, None
    parts = urlsplit(path)
    raw = urlsplit(scope.get("raw_path", path.encode()))
    return {**scope, "path": parts.path or "/", "raw_path": raw.path or b"/"}, parts.netloc

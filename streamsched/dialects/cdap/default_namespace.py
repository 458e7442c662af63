"""CDAP's addresses without a namespace, `/v3/apps/...`, which are those of the namespace `default`."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from streamsched.domain.names import DEFAULT_NAMESPACE

_APPS: Final = "/v3/apps"
_INSTEAD: Final = f"/v3/namespaces/{DEFAULT_NAMESPACE}/apps"


class DefaultNamespace:
    """ASGI middleware that adds the namespace to such an address, before anything decides by it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["path"] == _APPS or scope["path"].startswith(f"{_APPS}/")):
            raw = scope.get("raw_path") or b""
            known = raw.startswith(_APPS.encode())
            scope = {
                **scope,
                "path": _INSTEAD + scope["path"].removeprefix(_APPS),
                "raw_path": _INSTEAD.encode() + raw.removeprefix(_APPS.encode()) if known else None,
            }
        await self._app(scope, receive, send)

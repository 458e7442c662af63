"""Measures every response, from the request to the beginning of the response.

The label is the route's pattern, not the path, so ids do not create time series.
"""

from __future__ import annotations

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamsched.telemetry.metrics import Metrics


class RequestMeasures:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()

        async def send_and_measure(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route_name", "unknown").rpartition(" ")[2]
                labels = {"method": scope["method"], "route": route}
                self._metrics.observe("http_request_seconds", perf_counter() - began, **labels)
                self._metrics.add("http_requests_total", status=str(message["status"]), **labels)
            await send(message)

        await self._app(scope, receive, send_and_measure)

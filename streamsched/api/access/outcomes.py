"""Records the outcome of requests that `authorise` recorded in the audit."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamsched.access.auditing import Audit


class RequestOutcomes:
    """ASGI middleware. The outcome is recorded before the response begins; a request that crashed has none."""

    def __init__(self, app: ASGIApp, *, audit: Audit) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                state = scope.get("state", {})
                if "audited" in state:
                    number, caller, action, target = state["audited"]
                    detail = {"status": message["status"], **state.get("body", {})}
                    await self._audit.outcome(number, caller, action, target, detail)
            await send(message)

        await self._app(scope, receive, send_and_record)

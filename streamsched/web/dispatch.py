"""The way of a request to its page: who sends it, whether they may, and what goes wrong."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from streamsched.api.access.authorise import record_change
from streamsched.codec.problem import status_of
from streamsched.domain.errors import ForbiddenError, StreamschedError, UnauthenticatedError
from streamsched.web.page_access import PageAccess, check_entrance
from streamsched.web.rendering import Renderer
from streamsched.web.visit import PageRoute, PageServices, Visit, read_form, theme_of, zone_of

log = structlog.get_logger()

#: The field of a form that carries the session's token.
CSRF_FIELD: Final = "csrf"
_TITLES: Final = {400: "That cannot be done", 403: "Not permitted", 404: "Not found", 409: "Not in this state"}


class Dispatch:
    """Makes endpoints of pages."""

    def __init__(self, services: PageServices, renderer: Renderer, access: PageAccess) -> None:
        self._services = services
        self._access = access
        self._renderer = renderer

    def endpoint(self, route: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of a page, which is checked by its rule."""
        rule = route.rule

        async def endpoint(request: Request) -> Response:
            visit: Visit | None = None
            try:
                visit = await self._visit(request)
                if elsewhere := check_entrance(visit.caller, rule, request):
                    return RedirectResponse(elsewhere, HTTPStatus.SEE_OTHER)
                if request.method == "POST":
                    visit = await self._with_form(visit)
                    await record_change(visit.caller, rule, route.name, request)
                return await route.handler(visit)
            except UnauthenticatedError as error:
                return _to_login(request, error)
            except StreamschedError as error:
                return self._failure_page(request, visit, status_of(error), str(error))
            except Exception as error:
                log.error("web.page_crashed", page=route.name, exc_info=error)
                text = "The page could not be made; the log of the API says why."
                return self._failure_page(request, visit, HTTPStatus.INTERNAL_SERVER_ERROR, text)

        return endpoint

    async def _visit(self, request: Request) -> Visit:
        services, namespace = self._services, request.query_params.get("namespace") or None
        cookie = request.cookies.get(await services.sessions.cookie_name())
        signed_in = await services.sessions.read(cookie)
        return Visit(
            request=request,
            services=services,
            access=self._access,
            caller=signed_in.caller,
            csrf=signed_in.csrf,
            now=services.api.clock.now(),
            path=request.url.path,
            namespace=namespace if namespace and signed_in.caller.sees(namespace) else None,
            theme=theme_of(request),
            zone=zone_of(request),
        )

    async def _with_form(self, visit: Visit) -> Visit:
        """Raises:
        ForbiddenError: the form is not of this session.
        """
        form = await read_form(visit.request)
        if not hmac.compare_digest(form.pop(CSRF_FIELD, "").encode(), visit.csrf.encode()):
            raise ForbiddenError("this form is of another session: open the page again, then send it")
        return replace(visit, form=form)

    def _failure_page(self, request: Request, visit: Visit | None, status: int, text: str) -> Response:
        title = _TITLES.get(
            status, "Not available" if status == HTTPStatus.SERVICE_UNAVAILABLE else HTTPStatus(status).phrase
        )
        back = _own_page(request.headers.get("referer", ""), request) if request.method == "POST" else ""
        context = {
            "title": title,
            "text": f"{text[:1].upper()}{text[1:].rstrip('.')}.",
            "back": back or "/ui/",
            "status_code": int(status),
        }
        if visit is None:
            return self._renderer.html("refused.html", code=status, theme=theme_of(request), **context)
        return self._renderer.page(visit, "error.html", code=status, **context)


def _to_login(request: Request, error: UnauthenticatedError) -> Response:
    if request.method != "GET" or request.headers.get("sec-fetch-mode") == "cors":
        return PlainTextResponse(f"{error}; log in at /ui/login\n", HTTPStatus.UNAUTHORIZED)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/ui/login?next={quote(wanted, safe='')}", HTTPStatus.SEE_OTHER)


def _own_page(address: str, request: Request) -> str:
    """The path of the page that sent a form; empty when it is not one of ours."""
    own = f"{request.url.scheme}://{request.url.netloc}/ui/"
    return address[len(own) - 4 :] if address.startswith(own) else ""

"""Logging in with an API token, or with the link that `streamsched dev` prints."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from streamsched.domain.errors import StreamschedError, UnauthenticatedError
from streamsched.web.rendering import Renderer
from streamsched.web.session import SESSION, Sessions
from streamsched.web.visit import read_form, theme_of


class LoginPages:
    """Pages that need no session; `provider_login` has two more. A form from another origin is refused by the API's
    request guard.
    """

    def __init__(self, sessions: Sessions, renderer: Renderer, *, provider: str = "") -> None:
        """`provider`: the host of the OpenID provider at which people may log in; empty: none."""
        self._sessions = sessions
        self._renderer = renderer
        self._provider = provider

    async def show(self, request: Request) -> Response:
        """The form; with `code` the end of a login link. The answer to it is a page, not a redirect: a browser sends a
        strict cookie only with what its own page requests.
        """
        wanted = own_path(request.query_params.get("next", ""))
        try:
            return await self._show(request, wanted)
        except StreamschedError as failed:
            return self.form(request, wanted, error=str(failed), status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def _show(self, request: Request, wanted: str) -> Response:
        if not self._sessions.are_needed:
            return RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
        code = request.query_params.get("code")
        if code is None:
            return await self._return_visitor(request, wanted) or self.form(request, wanted)
        try:
            return await self.start_session(request, await self._sessions.redeem(code), wanted)
        except UnauthenticatedError as refused:
            return self.form(request, wanted, error=str(refused), status=HTTPStatus.UNAUTHORIZED)

    async def enter(self, request: Request) -> Response:
        """Begins a session with the token of the form, and leads on to the page that was wanted; a refused token shows
        the form again, with 401.
        """
        wanted = own_path("")
        try:
            form = await read_form(request)
            wanted = own_path(form.get("next", ""))
            return await self.start_session(request, await self._sessions.begin(form.get("token", "")), wanted)
        except UnauthenticatedError as refused:
            return self.form(request, wanted, error=str(refused), status=HTTPStatus.UNAUTHORIZED)
        except StreamschedError as failed:
            return self.form(request, "/ui/", error=str(failed), status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def _return_visitor(self, request: Request, wanted: str) -> Response | None:
        """The way on for a browser that has a session. After a link on another site it sends no strict cookie: then the
        answer is a page that opens this one again, which is a request of our own site.
        """
        try:
            await self._sessions.read(request.cookies.get(await self._sessions.cookie_name()))
        except UnauthenticatedError:
            if request.headers.get("sec-fetch-site") != "cross-site":
                return None
            address = f"/ui/login?{urlencode({'next': wanted})}"
            return self._renderer.html("returning.html", address=address, theme=theme_of(request))
        return RedirectResponse(wanted, HTTPStatus.SEE_OTHER)

    def form(self, request: Request, wanted: str, *, error: str = "", status: int = 200) -> Response:
        """The login page; `error` is a sentence about what went wrong."""
        text = f"{error[:1].upper()}{error[1:].rstrip('.')}." if error else ""
        there = f"/ui/login/oidc?{urlencode({'next': wanted})}"
        context = {"wanted": wanted, "error": text, "provider": self._provider, "there": there}
        return self._renderer.html("login.html", code=status, theme=theme_of(request), **context)

    async def start_session(
        self, request: Request, cookie: str, wanted: str, *, lasts: timedelta = SESSION
    ) -> Response:
        """A page that leads on to `wanted`, with the cookie of a new session."""
        answer = self._renderer.html("entered.html", wanted=wanted, theme=theme_of(request))
        answer.set_cookie(
            await self._sessions.cookie_name(),
            cookie,
            max_age=int(lasts.total_seconds()),
            path="/ui",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer


def own_path(wanted: str) -> str:
    """The page to show after a login: `wanted` when it is one of ours."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/ui/"
    ours = not parts.scheme and not parts.netloc and parts.path.startswith("/ui/") and "\\" not in wanted
    return wanted if ours and wanted.isprintable() else "/ui/"

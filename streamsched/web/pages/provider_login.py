"""Logging in at the OpenID provider: the way there, and the way back with a code (ADR 30)."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from streamsched.domain.errors import StreamschedError, UnauthenticatedError, UnavailableError
from streamsched.ports.clock import Clock
from streamsched.web.login_attempt import ATTEMPT, LoginAttempt, LoginAttempts
from streamsched.web.pages.login import LoginPages, own_path
from streamsched.web.session import Sessions

if TYPE_CHECKING:  # cryptography, only when it is used
    from streamsched.access.code_flow import CodeFlow

log = structlog.get_logger()

#: Where the provider sends people back to.
CALLBACK: Final = "/ui/login/oidc/callback"
_COOKIE_PATH: Final = "/ui/login/oidc"
_LONGEST: Final = 4000
_ERROR: Final = re.compile(r"[a-z_]{1,50}")
#: Errors of the provider that are not about the person.
_PASSING: Final = frozenset({"server_error", "temporarily_unavailable"})


class ProviderLoginPages:
    """Both are public. Every failure is the login page with a sentence. `provider`: None when there are no such
    logins.
    """

    def __init__(self, provider: CodeFlow | None, sessions: Sessions, door: LoginPages, clock: Clock) -> None:
        self._provider = provider
        self._sessions = sessions
        self._attempts = LoginAttempts(sessions.texts, clock)
        self._door = door
        self._clock = clock

    async def leave(self, request: Request) -> Response:
        """To the provider. The cookie is lax: the way back is a link on another site."""
        wanted = own_path(request.query_params.get("next", ""))
        if self._provider is None:
            return self._missing_page(request, wanted)
        try:
            attempt, cookie = await self._attempts.begin(wanted)
            address = await self._provider.address(attempt.secrets, _redirect_uri(request))
            answer = RedirectResponse(address, HTTPStatus.SEE_OTHER)
            answer.set_cookie(
                await self._cookie_name(),
                cookie,
                max_age=int(ATTEMPT.total_seconds()),
                path=_COOKIE_PATH,
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="lax",
            )
            return answer
        except StreamschedError as failed:
            return self._failure_page(request, wanted, failed)

    async def come_back(self, request: Request) -> Response:
        """With a code, for which a session begins, or with an error. In both cases the login has ended; it has not when
        the state is that of another one.
        """
        if self._provider is None:
            return self._missing_page(request, "/ui/")
        try:
            name = await self._cookie_name()
            attempt = await self._attempts.end(request.cookies.get(name), request.query_params.get("state", ""))
        except StreamschedError as failed:
            return self._failure_page(request, "/ui/", failed)
        wanted = own_path(attempt.wanted)
        try:
            answer = await self._enter(request, self._provider, attempt, wanted)
        except StreamschedError as failed:
            answer = self._failure_page(request, wanted, failed)
        answer.delete_cookie(name, path=_COOKIE_PATH)
        return answer

    async def _enter(self, request: Request, provider: CodeFlow, attempt: LoginAttempt, wanted: str) -> Response:
        query = request.query_params
        if query.get("iss", provider.rules.issuer) != provider.rules.issuer:
            raise UnauthenticatedError("another OpenID provider answers than the one of this installation")
        error, code = query.get("error"), query.get("code", "")
        if error is not None:
            raise _refusal(error)
        if not 0 < len(code) <= _LONGEST:
            raise UnauthenticatedError("the OpenID provider answers without a code; log in again")
        person = await provider.identity(code, attempt.secrets, _redirect_uri(request))
        cookie, ends = await self._sessions.begin_person(person)
        log.info("web.logged_in", name=person.name)
        return await self._door.start_session(request, cookie, wanted, lasts=ends - self._clock.now())

    async def _cookie_name(self) -> str:
        return f"{await self._sessions.cookie_name()}_login"

    def _missing_page(self, request: Request, wanted: str) -> Response:
        text = "people log in to this installation with tokens only"
        return self._door.form(request, wanted, error=text, status=HTTPStatus.NOT_FOUND)

    def _failure_page(self, request: Request, wanted: str, failed: StreamschedError) -> Response:
        refused = isinstance(failed, UnauthenticatedError)
        if refused:
            log.info("web.login_refused", reason=str(failed))
        else:
            log.warning("web.login_unavailable", error=str(failed))
        status = HTTPStatus.UNAUTHORIZED if refused else HTTPStatus.SERVICE_UNAVAILABLE
        return self._door.form(request, wanted, error=str(failed), status=status)


def _redirect_uri(request: Request) -> str:
    """As the person reached this installation; the request guard has checked the host."""
    return f"{request.url.scheme}://{request.url.netloc}{CALLBACK}"


def _refusal(error: str) -> StreamschedError:
    known = error if _ERROR.fullmatch(error) else "an unknown error"
    if known in _PASSING:
        return UnavailableError(f"the OpenID provider cannot log you in now: {known}")
    return UnauthenticatedError(f"the OpenID provider has refused the login: {known}")

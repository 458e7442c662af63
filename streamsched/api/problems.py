"""Error responses: RFC 9457 problem JSON. The only module that maps errors to HTTP statuses.

A problem has `type`, `title`, `status` and `detail`; for invalid input also `path` (a JSON path into the body, or the
name of a parameter) and `reason`; over a quota `namespace`, `quota`, `limit`, `used` and `wanted`. `retriable` says
whether the same request can succeed later. CDAP routes use the same statuses with plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from streamsched.api.access.rules import RouteTable
from streamsched.api.plain import message, plain, speaks_cdap
from streamsched.api.rendering import rendered
from streamsched.domain.errors import (
    BodyExceededError,
    ConfigurationError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PlanChangedError,
    QuotaExceededError,
    RateExceededError,
    RevisionChangedError,
    StreamschedError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)

CONTENT_TYPE: Final = "application/problem+json"

#: The nearest class in the error's method resolution order decides.
STATUSES: Final[Mapping[type[StreamschedError], HTTPStatus]] = {
    InvalidError: HTTPStatus.BAD_REQUEST,
    TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    NotFoundError: HTTPStatus.NOT_FOUND,
    RevisionChangedError: HTTPStatus.PRECONDITION_FAILED,
    ConflictError: HTTPStatus.CONFLICT,
    UnauthenticatedError: HTTPStatus.UNAUTHORIZED,
    ForbiddenError: HTTPStatus.FORBIDDEN,
    RateExceededError: HTTPStatus.TOO_MANY_REQUESTS,
    BodyExceededError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    QuotaExceededError: HTTPStatus.FORBIDDEN,
    FencedError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    ConfigurationError: HTTPStatus.INTERNAL_SERVER_ERROR,
    StreamschedError: HTTPStatus.INTERNAL_SERVER_ERROR,
}

log = structlog.get_logger()


def status_of(error: StreamschedError) -> HTTPStatus:
    """The HTTP status of an error."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem(status: int, detail: str, **members: Any) -> Response:
    """A problem response; members that are None are omitted."""
    phrase = HTTPStatus(status).phrase
    body = {
        "type": f"urn:streamsched:problem:{phrase.lower().replace(' ', '-')}",
        "title": phrase,
        "status": int(status),
        "detail": detail,
        **{name: value for name, value in members.items() if value is not None},
    }
    return rendered(body, status=status, media_type=CONTENT_TYPE, headers=_headers(status))


def problem_of(error: StreamschedError) -> Response:
    """The problem response of a domain error."""
    members: dict[str, Any] = {}
    match error:
        case InvalidError(path=path, reason=reason):
            members = {"path": path, "reason": reason}
        case NotFoundError(kind=kind, name=name):
            members = {"kind": kind, "name": name}
        case PlanChangedError(what=what):
            members = {"kind": "plan", "name": what}
        case QuotaExceededError(namespace=namespace, quota=quota, limit=limit, used=used, wanted=wanted):
            members = {"namespace": namespace, "quota": quota, "limit": limit, "used": used, "wanted": wanted}
    answer = problem(status_of(error), str(error), retriable=error.retriable, **members)
    if isinstance(error, RevisionChangedError) and error.revision is not None:
        answer.headers["ETag"] = f'"{error.revision}"'
    if isinstance(error, RateExceededError):
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


def _answer(request: Request, status: int, detail: str, **members: Any) -> Response:
    return plain(status, detail) if speaks_cdap(request) else problem(status, detail, **members)


def _headers(status: int) -> Mapping[str, str] | None:
    match status:
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return {"Retry-After": "1"}
        case HTTPStatus.UNAUTHORIZED:
            return {"WWW-Authenticate": 'Bearer realm="streamsched"'}
        case _:
            return None


def answer_problems(api: FastAPI) -> None:
    """Installs handlers that answer every error of `api` with a problem, including routing and parameter errors."""
    api.add_exception_handler(StreamschedError, _domain)
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(RequestValidationError, _parameter)
    api.add_exception_handler(Exception, _unexpected)


async def _domain(request: Request, error: Exception) -> Response:
    assert isinstance(error, StreamschedError)
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request.failed", method=request.method, path=request.url.path, error=str(error))
    if speaks_cdap(request):
        return plain(status, message(error), headers=_headers(status))
    return problem_of(error)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _answer(request, error.status_code, str(error.detail))
    for name, value in (error.headers or {}).items():
        answer.headers.setdefault(name, value)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:  # the router names the methods of one route of the path
        routes: RouteTable | None = getattr(request.app.state, "routes", None)
        if routes is not None and (methods := routes.methods(request.scope.get("endpoint"))):
            answer.headers["Allow"] = ", ".join(methods)
    return answer


async def _parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"][1:]) or "$"
    reason = first["msg"]
    return _answer(request, HTTPStatus.BAD_REQUEST, f"{path}: {reason}", path=path, reason=reason, retriable=False)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("request.crashed", method=request.method, path=request.url.path, exc_info=error)
    return _answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the API", retriable=False)

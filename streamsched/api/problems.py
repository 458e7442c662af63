"""Error responses: RFC 9457 problem JSON (`codec.problem`), or plain text in the dialects that have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from streamsched.api.rendering import json_response
from streamsched.api.routing.dialect import HttpDialect
from streamsched.api.routing.parameters import ParameterError
from streamsched.codec import problem as problem_codec
from streamsched.codec.problem import error_to_json, status_of
from streamsched.domain.errors import RevisionChangedError, StreamschedError

CONTENT_TYPE: Final = "application/problem+json"

log = structlog.get_logger()


def problem(status: int, detail: str, **members: Any) -> Response:
    """A problem response; members that are None are omitted."""
    return problem_response(problem_codec.to_json(status, detail, **members))


def problem_response(body: Mapping[str, Any]) -> Response:
    """The response with this problem, and with the headers of its status."""
    return json_response(body, status=body["status"], media_type=CONTENT_TYPE, headers=_headers(body["status"]))


def problem_of(error: StreamschedError) -> Response:
    """The problem response of a domain error."""
    answer = problem_response(error_to_json(error))
    if isinstance(error, RevisionChangedError) and error.revision is not None:
        answer.headers["ETag"] = f'"{error.revision}"'
    if error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


def refusal(dialects: Iterable[HttpDialect], path: str, status: int, detail: str, /, **members: Any) -> Response:
    """The response of an error of a request to this path: a problem, or the text alone."""
    if _speaks_plainly(dialects, path) is not None:
        return PlainTextResponse(detail, status)
    return problem(status, detail, **members)


def _answer(request: Request, status: int, detail: str, **members: Any) -> Response:
    return refusal(_dialects(request), request.url.path, status, detail, **members)


def _dialects(request: Request) -> Iterable[HttpDialect]:
    return getattr(getattr(request.scope.get("app"), "state", None), "dialects", ())


def _speaks_plainly(dialects: Iterable[HttpDialect], path: str) -> Callable[[StreamschedError], str] | None:
    """The texts of errors in the dialect of the path, if errors are texts there."""
    return next((each.message for each in dialects if each.message and path.startswith(each.prefix)), None)


def _headers(status: int) -> Mapping[str, str] | None:
    match status:
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return {"Retry-After": "1"}
        case HTTPStatus.UNAUTHORIZED:
            return {"WWW-Authenticate": 'Bearer realm="streamsched"'}
        case _:
            return None


async def _domain(request: Request, error: Exception) -> Response:
    assert isinstance(error, StreamschedError)
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request.failed", method=request.method, path=request.url.path, error=str(error))
    message = _speaks_plainly(_dialects(request), request.url.path)
    return problem_of(error) if message is None else PlainTextResponse(message(error), status, _headers(status))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _answer(request, error.status_code, str(error.detail))
    for name, value in (error.headers or {}).items():
        answer.headers.setdefault(name, value)
    return answer


async def _parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, ParameterError)
    path, reason = error.path, error.reason
    return _answer(request, HTTPStatus.BAD_REQUEST, str(error), path=path, reason=reason, retriable=False)


async def _crash(request: Request, error: Exception) -> Response:
    log.error("request.crashed", method=request.method, path=request.url.path, exc_info=error)
    return _answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the API", retriable=False)


#: Answers every error of an application with a problem, including routing and parameter errors.
PROBLEMS: Final[Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]]] = MappingProxyType(
    {StreamschedError: _domain, HTTPException: _http, ParameterError: _parameter, Exception: _crash}
)

"""Errors as problems of the API (RFC 9457), and back: the one mapping between errors and HTTP statuses.

A problem has `type`, `title`, `status` and `detail`; for invalid input also `path` (a JSON path into the body, or the
name of a parameter) and `reason`; over a quota `namespace`, `quota`, `limit`, `used` and `wanted`. `retriable` says
whether the same request can succeed later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from streamsched.domain.errors import (
    BacklogExceededError,
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
    Refusal,
    RefusedError,
    RevisionChangedError,
    StreamschedError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)
from streamsched.domain.json_value import Json

#: Prefix of `type`.
TYPE: Final = "urn:streamsched:problem:"
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
    BacklogExceededError: HTTPStatus.TOO_MANY_REQUESTS,
    BodyExceededError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    QuotaExceededError: HTTPStatus.FORBIDDEN,
    FencedError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    ConfigurationError: HTTPStatus.INTERNAL_SERVER_ERROR,
    StreamschedError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
#: Errors that the message says completely; 421: the Host header names a host that the API does not serve.
_BY_DETAIL: Final[Mapping[int, type[StreamschedError]]] = {
    401: UnauthenticatedError,
    403: ForbiddenError,
    409: ConflictError,
    421: ConfigurationError,
}
#: Statuses after which the same request may succeed later, of the API or of a proxy before it.
COME_BACK: Final = frozenset({408, 425, 429, 502, 503, 504})


def status_of(error: StreamschedError) -> HTTPStatus:
    """The HTTP status of an error."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def to_json(status: int, detail: str, **members: Any) -> dict[str, Any]:
    """A problem; members that are None are omitted."""
    phrase = HTTPStatus(status).phrase
    return {
        "type": f"{TYPE}{phrase.lower().replace(' ', '-')}",
        "title": phrase,
        "status": int(status),
        "detail": detail,
        **{name: value for name, value in members.items() if value is not None},
    }


def error_to_json(error: StreamschedError) -> dict[str, Any]:
    """The problem of an error."""
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
        case _:
            pass
    return to_json(status_of(error), str(error), retriable=error.retriable, **members)


def error_of_answer(status: int, body: bytes, *, url: str, etag: str = "") -> StreamschedError:
    """As `error_from_json`, of the body of an answer as it came."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    return error_from_json(status, answer, url=url, etag=etag)


def error_from_json(status: int, answer: Json, *, url: str, etag: str = "") -> StreamschedError:
    """The error that an answer with a status from 400 says. `answer`: its body as a JSON value, or anything else; `url`
    that of the request; `etag` its header.
    """
    found: Mapping[str, Json] = answer if isinstance(answer, dict) else {}
    detail = str(found.get("detail") or f"{url} answered {status}")
    if status in COME_BACK:
        return UnavailableError(detail)
    if not found.get("type"):
        return ConfigurationError(f"{url} answered {status}, and is no API of streamsched")
    match status:
        case 400 if refusals := refusals_from_json(found):
            return RefusedError(refusals, 0)
        case 400 | 413 | 415 | 422:
            return InvalidError(str(found.get("path", "$")), str(found.get("reason", detail)))
        case 403 if "quota" in found:
            return _quota_exceeded(found)
        case 404:
            return NotFoundError(str(found.get("kind", "page")), str(found.get("name", url)))
        case 409 if found.get("kind") == "plan":
            return PlanChangedError(str(found.get("name", "")))
        case 412:
            return RevisionChangedError(url, etag.strip('"') or None)
        case _:
            return _BY_DETAIL.get(status, StreamschedError)(detail)


def refusals_from_json(answer: Mapping[str, Any]) -> Sequence[Refusal]:
    """The events that an answer to sent events names as refused, with paths within each event (`$[2].data` is `$.data`
    of the third).

    Raises:
        KeyError, TypeError, ValueError: the answer names them otherwise than the API does.
    """
    refused = [(int(each["index"]), str(each["path"]), str(each["reason"])) for each in answer.get("errors") or ()]
    return [
        Refusal(index, f"${path.removeprefix(f'$[{index}]').removeprefix('$')}", reason)
        for index, path, reason in refused
    ]


def _quota_exceeded(found: Mapping[str, Any]) -> QuotaExceededError:
    return QuotaExceededError(
        str(found.get("namespace", "")),
        str(found["quota"]),
        int(found.get("limit", 0)),
        used=float(found.get("used", 0)),
        wanted=int(found.get("wanted", 0)),
        message=str(found.get("detail", "")) or None,
    )

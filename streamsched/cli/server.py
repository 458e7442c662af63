"""The server a command talks to: where it is, and its answers as values or as our errors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from streamsched.domain.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)

DEFAULT_URL: Final = "http://127.0.0.1:8765"
_TIMEOUT: Final = 60.0

UrlOption = Annotated[
    str,
    typer.Option("--url", envvar="STREAMSCHED_URL", help="Where the API is; found in .streamsched/ when not given."),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Who wants it and why, for the history.")]


def folder_here() -> Path:
    """Where `streamsched dev` keeps everything."""
    return Path(os.environ.get("STREAMSCHED_DATA_DIR") or ".streamsched")


def find_url(given: str = "", folder: Path | None = None) -> str:
    """The API's URL: as given, else that of the `streamsched dev` of this folder, else the default one."""
    if given:
        return given.rstrip("/")
    try:
        return str(json.loads(((folder or folder_here()) / "dev.json").read_text())["url"])
    except (OSError, ValueError, KeyError):
        return DEFAULT_URL


def ask(
    method: str,
    path: str,
    *,
    url: str = "",
    params: Mapping[str, Any] | None = None,
    body: object = None,
    content: bytes | None = None,
    content_type: str = "application/json",
) -> Any:
    """The JSON (or text) of the server's answer. `STREAMSCHED_TOKEN` goes along as a bearer token: for a proxy in front
    that authenticates; the API itself asks nobody.

    Raises:
        InvalidError, NotFoundError, ConflictError: as the server says.
        UnavailableError: nobody answers there, or not in time.
    """
    import httpx

    where = find_url(url)
    sent = json.dumps(body).encode() if body is not None else content
    headers = {"Content-Type": content_type} if sent is not None else {}
    token = os.environ.get("STREAMSCHED_TOKEN")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    chosen = {name: value for name, value in (params or {}).items() if value not in (None, "", [])}
    try:
        answer = httpx.request(method, where + path, params=chosen, content=sent, headers=headers, timeout=_TIMEOUT)
    except httpx.TimeoutException as exc:
        raise UnavailableError(f"{where} did not answer within {_TIMEOUT:g} s") from exc
    except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
        raise UnavailableError(
            f"no streamsched answers at {where} ({exc}); start one with `streamsched dev`, or name another by --url"
        ) from exc
    if answer.is_success:
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    raise refusal(answer.status_code, problem if isinstance(problem, dict) else {}, where)


def refusal(status: int, problem: Mapping[str, Any], where: str) -> StreamschedError:
    """The error a problem tells of."""
    detail = str(problem.get("detail") or f"{where} answered with status {status}")
    match status:
        case 400 | 413 | 415 | 422:
            return InvalidError(str(problem.get("path", "$")), str(problem.get("reason", detail)))
        case 404 if "kind" in problem:
            return NotFoundError(str(problem["kind"]), str(problem.get("name", "")))
        case 404:
            return NotFoundError("page", f"{where}: {detail}")
        case 409:
            return ConflictError(detail)
        case 502 | 503 | 504:
            return UnavailableError(detail)
        case _:
            return StreamschedError(detail)


def full_name(text: str) -> str:
    """`app.name` is of namespace `default`; `namespace.app.name` is as it is."""
    return f"default.{text}" if text.count(".") == 1 else text

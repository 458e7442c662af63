"""HTTP client of the commands: the API's URL, requests, and conversion of error responses to our errors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from streamsched.cli.connection.exchange import Response, exchange
from streamsched.cli.connection.server_url import CONTEXT, DEFAULT_URL, ContextUrl, found_url, requested_url, token_of
from streamsched.cli.connection.waiting import notice
from streamsched.cli.naming import short_name
from streamsched.codec.problem import error_of_answer
from streamsched.domain.errors import NotFoundError

_TIMEOUT: Final = 60.0


def _requested_url(ctx: typer.Context, given: str) -> str:
    """The value of `--url`, else the URL that a context or the environment gives; empty: none."""
    context = ctx.find_root().params.get("context") or ""
    if ctx.resilient_parsing:
        return given
    if not given:
        return requested_url(context, os.environ)
    if context and context != os.environ.get(CONTEXT):
        raise typer.BadParameter("--url and --context exclude each other")
    return given.rstrip("/")


UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        callback=_requested_url,
        help="URL of the API. Default: that of `--context`, STREAMSCHED_URL, `streamsched dev` in this folder or a "
        f"parent, the current context, else {DEFAULT_URL}.",
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Who makes the change and why; stored in the history.")]


def folder_here() -> Path:
    """The folder where `streamsched dev` keeps its data."""
    return Path(os.environ.get("STREAMSCHED_DATA_DIR") or ".streamsched")


def find_url(given: str = "", folder: Path | None = None) -> str:
    """The API's URL: `given`, else `found_url`."""
    if isinstance(given, ContextUrl):
        return given
    return given.rstrip("/") or found_url(os.environ, folder)


def describe_server(given: str = "") -> str:
    """The API's URL, and how it was found if it was not given."""
    url = find_url(given)
    if isinstance(url, ContextUrl):
        return f"{url} (context {url.context.name})"
    from streamsched.emit.destination import dev_folder, dev_url

    folder = dev_folder(os.environ)
    if folder is not None and dev_url(folder) == url:
        return f"{url} (`streamsched dev` in {folder.resolve().parent})"
    return url if given else f"{url} (the default; set another with `--url`, `--context` or STREAMSCHED_URL)"


def ask(
    method: str,
    path: str,
    *,
    url: str = "",
    params: Mapping[str, Any] | None = None,
    body: object = None,
    content: bytes | None = None,
    content_type: str = "application/json",
    timeout: float = _TIMEOUT,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """The body of the response, as a JSON value or text; raises as `request`."""
    response = request(
        method,
        path,
        url=url,
        params=params,
        body=body,
        content=content,
        content_type=content_type,
        timeout=timeout,
        headers=headers,
    )
    return response.json() if "json" in response.headers.get("content-type", "") else response.text


def request(
    method: str,
    path: str,
    *,
    url: str = "",
    params: Mapping[str, Any] | None = None,
    body: object = None,
    content: bytes | None = None,
    content_type: str = "application/json",
    timeout: float = _TIMEOUT,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Sends a request and returns the response, which is successful. Parameters that are empty are not sent.

    The token is that of the context; without one `STREAMSCHED_TOKEN`, or that of the `streamsched dev` with this URL.

    Raises:
        InvalidError, NotFoundError, ConflictError: the server refused the request.
        UnavailableError: no server responds at the URL, or not within `timeout` seconds.
    """
    from streamsched.emit.destination import token_for

    base = find_url(url)
    data = json.dumps(body).encode() if body is not None else content
    sent = {**(headers or {}), **({"Content-Type": content_type} if data is not None else {})}
    own = token_of(base)
    token = token_for(base, os.environ) if own is None else own
    if token:
        sent["Authorization"] = f"Bearer {token}"
    query = {name: value for name, value in (params or {}).items() if value not in (None, "", [])}
    with notice(f"waiting for {base}"):
        response = exchange(method, base + path, query=query, content=data, headers=sent, timeout=timeout)
    if response.is_success:
        return response
    etag = response.headers.get("etag", "")
    error = error_of_answer(response.status, response.content, url=base + path, etag=etag)
    raise NotFoundError(error.kind, short_name(error.name)) if isinstance(error, NotFoundError) else error

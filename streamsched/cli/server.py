"""The requests of the commands: which API they ask, and what it answers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from streamsched.cli.connection.server_url import CONTEXT, DEFAULT_URL, ContextUrl, found_url, requested_url, token_of
from streamsched.cli.connection.waiting import notice
from streamsched.cli.naming import short_name
from streamsched.client.answers import check
from streamsched.client.api_address import ApiAddress
from streamsched.client.api_call import query
from streamsched.domain.errors import NotFoundError, UnavailableError
from streamsched.process.http_connection import BlockingConnection, HttpResponse


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
    timeout: float | None = None,
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
    timeout: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Sends a request and returns the response, which is successful. Parameters that are empty are not sent.

    Raises:
        InvalidError, NotFoundError, ConflictError: the server refused the request.
        UnavailableError: no server responds at the URL, or not within `timeout` seconds.
    """
    base = find_url(url)
    data = json.dumps(body).encode() if body is not None else content
    given = {name: value for name, value in (params or {}).items() if value not in (None, "", [])}
    kind = {} if data is None else {"Content-Type": content_type}
    with notice(f"waiting for {base}"):
        response = _connection_to(base).send(
            method, path, params=query(**given), content=data, headers={**(headers or {}), **kind}, timeout=timeout
        )
    if not response.sent:
        raise UnavailableError(
            f"no streamsched API at {base} ({response.failure}); start one with `streamsched dev`, or set another URL "
            "with --url"
        )
    try:
        return check(response, base, path)
    except NotFoundError as exc:
        raise NotFoundError(exc.kind, short_name(exc.name)) from exc


def _connection_to(base: str) -> BlockingConnection:
    """The connection to an API. The token is that of the context; without one `STREAMSCHED_TOKEN`, or that of the
    `streamsched dev` with this URL.
    """
    address = ApiAddress.find(base, token_of(base))
    return _kept_connection(address.url, **address.headers)


@cache
def _kept_connection(url: str, **headers: str) -> BlockingConnection:
    return BlockingConnection(url, headers)

"""How the routes of CDAP's dialect say that something is wrong: plain text, in CDAP's words where it has some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response

from streamsched.codec.cdap.trigger import VERSION
from streamsched.domain.errors import NotFoundError, StreamschedError

_PREFIX: Final = "/v3/"
_ENTITIES: Final = frozenset({"application", "program", "schedule"})


def speaks_cdap(request: Request) -> bool:
    """Whether a request came to one of CDAP's addresses."""
    return request.url.path.startswith(_PREFIX)


def plain(status: int, text: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """The message is the whole body."""
    return PlainTextResponse(text, status_code=status, headers=headers)


def message(error: StreamschedError) -> str:
    """What CDAP would say of an error, as far as it has words for it."""
    if isinstance(error, NotFoundError) and error.kind in _ENTITIES:
        namespace, app, *names = error.name.split(".")
        return f"'{error.kind}:{'.'.join([namespace, app, VERSION, *names])}' was not found."
    text = str(error)
    return text[:1].upper() + text[1:]

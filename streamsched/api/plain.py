"""Errors of the CDAP routes: plain text, with CDAP's message where CDAP defines one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from streamsched.codec.cdap.trigger import VERSION
from streamsched.domain.errors import NotFoundError, StreamschedError
from streamsched.domain.names import ScheduleRef

#: Prefix of the paths of all CDAP routes.
CDAP_PREFIX: Final = "/v3/"
_ENTITIES: Final = frozenset({"application", "program", "schedule"})


def speaks_cdap(request: Request) -> bool:
    """Whether the request is for a CDAP route."""
    return request.url.path.startswith(CDAP_PREFIX)


def plain(status: int, text: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """A response whose whole body is the message."""
    return PlainTextResponse(text, status_code=status, headers=headers)


def message(error: StreamschedError) -> str:
    """CDAP's message for an error; for errors CDAP does not have, our message with a capital letter."""
    if isinstance(error, NotFoundError) and error.kind in _ENTITIES:
        namespace, app, *names = error.name.split(".")
        if error.kind == "schedule":
            names = [ScheduleRef.parse(error.name).name]
        return f"'{error.kind}:{'.'.join([namespace, app, VERSION, *names])}' was not found."
    text = str(error)
    return text[:1].upper() + text[1:]

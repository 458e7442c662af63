"""Bodies in: bounded in size, and JSON or an error that says where."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request

from streamsched.codec.reading import Fields
from streamsched.codec.scalar import loads, mapping


async def read_body(request: Request) -> bytes:
    """The body, read no further than the installation's limit (413 beyond it, before the rest is received)."""
    limit: int = request.app.state.services.body_limit
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes; send fewer events in each request")


async def _read_object(body: Annotated[bytes, Depends(read_body)]) -> dict[str, Any]:
    return mapping(loads(body or b"{}"), "$")


def reasoned(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Who wants something and why (`reason`, optional), for the history; and what else the body says.

    Raises:
        DecodeError: the reason is no text.
    """
    reason = Fields(body).optional_text("reason") or ""
    return reason, {name: value for name, value in body.items() if name != "reason"}


def reason_of(body: dict[str, Any]) -> str:
    """The `reason` of a body that may say nothing else; empty without one.

    Raises:
        DecodeError: it is no text, or the body says something else.
    """
    reason, rest = reasoned(body)
    Fields(rest).done()
    return reason


BodyBytes = Annotated[bytes, Depends(read_body)]
BodyObject = Annotated[dict[str, Any], Depends(_read_object)]

"""Bodies in: bounded in size, and JSON or an error that says where."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import Depends, HTTPException, Request

from streamsched.codec.reading import kind
from streamsched.domain.errors import DecodeError


async def read_body(request: Request) -> bytes:
    """The body, read no further than the installation's limit (413 beyond it, before the rest is received)."""
    limit: int = request.app.state.body_limit
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        DecodeError: empty, or not JSON; the reason says at which line and column.
    """
    if not body.strip():
        raise DecodeError("$", "the body is empty")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise DecodeError("$", f"not JSON: {exc}") from exc


def parse_object(body: bytes) -> dict[str, Any]:
    """The members of a JSON object.

    Raises:
        DecodeError: not JSON, or JSON of another kind.
    """
    value = parse_json(body)
    if not isinstance(value, dict):
        raise DecodeError("$", f"must be an object but is {kind(value)}")
    return value


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes; send fewer events in each request")


async def _read_object(body: Annotated[bytes, Depends(read_body)]) -> dict[str, Any]:
    return parse_object(body)


BodyBytes = Annotated[bytes, Depends(read_body)]
BodyObject = Annotated[dict[str, Any], Depends(_read_object)]

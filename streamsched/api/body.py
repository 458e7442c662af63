"""Request bodies: limited in size, decoded as JSON with errors that name the path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import Depends, HTTPException, Request

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads, mapping
from streamsched.domain.errors import storable_text

#: Commas in a body. Decoding two million values takes most of a second, in which this process answers no other request.
_COMMAS: Final = 1_500_000
#: The largest body that is read by lines, in bytes.
_MOST_OF_LINES: Final = 512 * 1024 * 1024
#: The content type of lines of JSON.
LINES: Final = "application/x-ndjson"


async def read_body(request: Request) -> bytes:
    """Reads the body up to the configured limit.

    Raises:
        HTTPException: 413, as soon as the body is known to be larger; the rest is not received. Or the body has too
            many values.
    """
    limit: int = request.app.state.services.body_limit
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    if body.count(b",") > _COMMAS:
        raise HTTPException(413, f"the body has more than {_COMMAS:,} commas; send fewer values in each request")
    if getattr(request.state, "audited", None) is not None and body:
        request.state.body = {"sha256": sha256(body).hexdigest(), "bytes": len(body)}
    return bytes(body)


async def read_lines(request: Request) -> AsyncIterator[list[bytes]]:
    """The lines of a body as they arrive, each up to the configured limit of a body.

    Raises:
        HTTPException: 413, a line or the body is too large.
    """
    limit: int = request.app.state.services.body_limit
    rest, size = b"", 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > _MOST_OF_LINES:
            raise _too_large(_MOST_OF_LINES)
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > limit:
            raise _too_large(limit)
        if found := [line for line in lines if line.strip()]:
            yield found
    if rest.strip():
        yield [rest]


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes; send fewer events in each request")


async def _read_object(request: Request, body: Annotated[bytes, Depends(read_body)]) -> dict[str, Any]:
    read = mapping(loads(body or b"{}"), "$")
    if isinstance(read.get("reason"), str) and hasattr(request.state, "body"):
        request.state.body["reason"] = storable_text(read["reason"])
    return read


def reasoned(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Splits a body into its optional `reason`, which is stored in the history, and its other members.

    Raises:
        DecodeError: the reason is not a string.
    """
    reason = Fields(body).optional_text("reason") or ""
    return reason, {name: value for name, value in body.items() if name != "reason"}


def reason_of(body: dict[str, Any]) -> str:
    """The `reason` of a body that has no other members; empty when it is missing.

    Raises:
        DecodeError: the reason is not a string, or the body has other members.
    """
    reason, rest = reasoned(body)
    Fields(rest).done()
    return reason


BodyBytes = Annotated[bytes, Depends(read_body)]
BodyObject = Annotated[dict[str, Any], Depends(_read_object)]

"""Request bodies: limited in size, decoded as JSON with errors that name the path."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, HTTPException, Request

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads, mapping

#: Commas in a body. Decoding two million values takes most of a second, in which this process answers no other request.
_COMMAS: Final = 1_500_000


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
    return bytes(body)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes; send fewer events in each request")


async def _read_object(body: Annotated[bytes, Depends(read_body)]) -> dict[str, Any]:
    return mapping(loads(body or b"{}"), "$")


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

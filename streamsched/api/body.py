"""Request bodies: limited in size, decoded as JSON with errors that name the path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, HTTPException, Request

from streamsched.access.quota_watch import QuotaWatch
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
    """Reads the body up to the configured limit, or that of the namespace which the path names.

    Raises:
        HTTPException: 413, as soon as the body is known to be larger; the rest is not received. Or the body has too
            many values.
        BodyExceededError: the body is larger than the namespace allows; likewise.
    """
    limit: int = request.app.state.services.body_limit
    quota = await _quota(request)

    def check(size: int) -> None:
        if size > limit:
            raise _too_large(limit)
        if quota is not None and size > quota.limit:
            raise quota.watch.too_large(quota.namespace, quota.limit, size)

    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        check(int(announced))
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        check(len(body))
    if body.count(b",") > _COMMAS:
        raise HTTPException(413, f"the body has more than {_COMMAS:,} commas; send fewer values in each request")
    if getattr(request.state, "audited", None) is not None and body:
        request.state.body = {"sha256": sha256(body).hexdigest(), "bytes": len(body)}
    return bytes(body)


class _BodyQuota(NamedTuple):
    """The largest body that a namespace allows."""

    watch: QuotaWatch
    namespace: str
    limit: int


async def _quota(request: Request) -> _BodyQuota | None:
    """The quota of the namespace that the path names; None without one. A namespace in the body is checked later."""
    namespace: str | None = getattr(request.state, "namespace", None)
    watch: QuotaWatch | None = getattr(request.app.state.services, "quota_watch", None)
    if namespace is None or watch is None:
        return None
    limit = await watch.body_limit(namespace)
    return None if limit is None else _BodyQuota(watch, namespace, limit)


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

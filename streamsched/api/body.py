"""Request bodies: limited in size and time, decoded as JSON with errors that name the path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from io import BytesIO
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from streamsched.access.quota_watch import QuotaWatch
from streamsched.api.bounds.body_room import BodyRoom
from streamsched.api.bounds.request_limits import ORDINARY, RequestLimit
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.table import ServedRoute
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads, mapping
from streamsched.domain.errors import storable_text

_R = TypeVar("_R")

#: Bytes from which on a body is decoded in a thread, as it takes long.
LARGE: Final = 256 * 1024
#: A body that does not end brings at least so many bytes in so many seconds.
_LEAST_IN_WINDOW: Final = 16 * 1024
_WINDOW_S: Final = 30.0
#: The largest body that is read by lines, in bytes.
_MOST_OF_LINES: Final = 512 * 1024 * 1024
_IN_SEVERAL: Final = "send it in several requests"
#: The content type of lines of JSON.
LINES: Final = "application/x-ndjson"


async def receive(request: Request) -> AsyncIterator[bytes]:
    """The body as it arrives.

    Raises:
        HTTPException: 408, the client sends too slowly. 400, it has gone.
    """
    clock = asyncio.get_running_loop().time
    window_ends, due = clock() + _WINDOW_S, _LEAST_IN_WINDOW
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout_at(window_ends):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise HTTPException(
                408, f"the body arrives too slowly: send at least {_LEAST_IN_WINDOW} bytes in {_WINDOW_S:.0f} s"
            ) from None
        except ClientDisconnect:
            raise HTTPException(400, "the client has gone") from None
        yield chunk
        due -= len(chunk)
        if due <= 0:
            window_ends, due = clock() + _WINDOW_S, _LEAST_IN_WINDOW


async def read_body(request: Request) -> AsyncIterator[bytes]:
    """Reads the body up to the configured limit, or that of the namespace which the path names, and holds room for it
    until the request is answered.

    Raises:
        HTTPException: 413, as soon as the body is known to be larger; the rest is not received. Or the body has more
            values than its route reads. 503: other bodies take the room. 408: it arrives too slowly.
        BodyExceededError: the body is larger than the namespace allows; likewise.
    """
    room: BodyRoom = request.app.state.body_room
    limit = room.largest
    quota = await _quota(request)

    def check(size: int) -> None:
        if size > limit:
            raise too_large("body", f"{limit} bytes (STREAMSCHED_BODY_LIMIT)", _IN_SEVERAL)
        if quota is not None and size > quota.limit:
            raise quota.watch.refuse_body(quota.namespace, quota.limit, size)

    check(announced_size(request))
    with room.place(request.client.host if request.client else "") as place:
        held, size = BytesIO(), 0
        async for chunk in receive(request):
            size += len(chunk)
            check(size)
            place.grow(len(chunk))
            held.write(chunk)
        body = held.getvalue()  # no copy: both share the bytes
        known = _limit(request)
        values = await decode_body(body, known.check_values)
        if getattr(request.state, "audited", None) is not None and body:
            request.state.body = {"sha256": sha256(body).hexdigest(), "bytes": size}
        async with room.hold_values(values * known.weight):
            yield body


def _limit(request: Request) -> RequestLimit:
    """What the route reads; outside a table of routes the ordinary."""
    served: ServedRoute | None = request.scope.get("served")
    return ORDINARY if served is None else served.route.limit


class _BodyQuota(NamedTuple):
    """The largest body that a namespace allows."""

    watch: QuotaWatch
    namespace: str
    limit: int


async def _quota(request: Request) -> _BodyQuota | None:
    """The quota of the namespace that the path names; None without one. A namespace in the body is checked later."""
    namespace: str | None = getattr(request.state, "namespace", None)
    watch: QuotaWatch | None = getattr(request.app.state, "quota_watch", None)
    if namespace is None or watch is None:
        return None
    limit = await watch.body_limit(namespace)
    return None if limit is None else _BodyQuota(watch, namespace, limit)


async def read_lines(request: Request) -> AsyncIterator[list[bytes]]:
    """The lines of a body as they arrive, each up to the configured limit of a body.

    Raises:
        HTTPException: 413, a line or the body is too large.
    """
    room: BodyRoom = request.app.state.body_room
    limit = room.largest
    rest, size = b"", 0
    async for chunk in receive(request):
        size += len(chunk)
        if size > _MOST_OF_LINES:
            raise too_large("body", f"{_MOST_OF_LINES} bytes", _IN_SEVERAL)
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > limit:
            raise too_large("body", f"{limit} bytes (STREAMSCHED_BODY_LIMIT)", _IN_SEVERAL)
        if found := [line for line in lines if line.strip()]:
            yield found
    if rest.strip():
        yield [rest]


def too_large(what: str, limit: str, advice: str) -> HTTPException:
    """The refusal of what is larger than its limit, as texts for the sender."""
    return HTTPException(413, f"the {what} is larger than {limit}; {advice}")


def announced_size(request: Request) -> int:
    """The bytes that the body is said to have; 0 when it is not said."""
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isdigit() else 0


BodyBytes = Annotated[bytes, Depends(read_body)]


async def decode_body(body: bytes, decode: Callable[[bytes], _R]) -> _R:
    """What `decode` makes of a body; of a large one in a thread. Raises its errors."""
    return decode(body) if len(body) < LARGE else await asyncio.to_thread(decode, body)


async def _read_object(request: Request, body: BodyBytes) -> dict[str, Any]:
    read = mapping(await decode_body(body or b"{}", loads), "$")
    if isinstance(read.get("reason"), str) and hasattr(request.state, "body"):
        request.state.body["reason"] = storable_text(read["reason"])
    return read


def split_reason(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
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
    reason, rest = split_reason(body)
    Fields(rest).check_all_read()
    return reason


BodyObject = Annotated[dict[str, Any], Depends(_read_object)]

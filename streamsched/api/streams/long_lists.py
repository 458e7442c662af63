"""Lists without pages, as other products' clients ask for them: read and sent part by part, so that neither memory nor
the turns of the event loop grow with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from fastapi.responses import StreamingResponse

from streamsched.api.rendering import encoded

_T = TypeVar("_T")
#: Items of a part.
_PART: Final = 500


async def parts_of(
    read: Callable[[str, int], Awaitable[Sequence[_T]]], id_of: Callable[[_T], str]
) -> AsyncIterator[Sequence[_T]]:
    """All items of a list in parts. `read`: at most so many after an id. What changes meanwhile may be in it or not."""
    after = ""
    while found := await read(after, _PART):
        yield found
        if len(found) < _PART:
            return
        after = id_of(found[-1])


async def start_reading(parts: AsyncIterator[Sequence[_T]]) -> AsyncIterator[Sequence[_T]]:
    """The same parts. The first has been read, so that an error still has its status."""
    first: list[Sequence[_T]] = []
    with suppress(StopAsyncIteration):  # `anext` with a default fails on Python 3.11 when there is none
        first.append(await anext(parts))

    async def all_of_them() -> AsyncIterator[Sequence[_T]]:
        for each in first:
            yield each
        async for each in parts:
            yield each

    return all_of_them()


async def stream_list(
    parts: AsyncIterator[Sequence[_T]],
    view: Callable[[Sequence[_T]], list[dict[str, Any]]],
    *,
    around: tuple[bytes, bytes] = (b"[", b"]"),
) -> StreamingResponse:
    """A response with the views of all parts as one JSON list, with what is `around` it."""
    opening, closing = around
    found = await start_reading(parts)

    async def chunks() -> AsyncIterator[bytes]:
        before = opening
        async for part in found:
            text = (await asyncio.to_thread(lambda part=part: encoded(view(part))))[1:-1]
            if text:
                yield before + text
                before = b","
        yield closing if before == b"," else opening + closing

    return StreamingResponse(chunks(), media_type="application/json")

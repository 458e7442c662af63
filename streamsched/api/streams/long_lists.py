"""Lists without pages, as other products' clients ask for them: read and sent part by part, so that neither memory nor
the turns of the event loop grow with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from starlette.responses import StreamingResponse

from streamsched.api.rendering import encode_json

_T = TypeVar("_T")
#: The JSON of the items of a part; it may be that of fewer, or of more.
View = Callable[[Sequence[_T]], list[dict[str, Any]]]
#: Items of a part.
_PART: Final = 500


async def parts_of(
    read: Callable[[str, int], Awaitable[Sequence[_T]]], id_of: Callable[[_T], str], *, after: str = ""
) -> AsyncIterator[Sequence[_T]]:
    """All items of a list after an id, in parts. `read`: at most so many after an id. What changes meanwhile may be in
    it or not.
    """
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


async def stream_list(parts: AsyncIterator[Sequence[_T]], view: View[_T]) -> StreamingResponse:
    """A response with the views of all parts as one JSON list."""
    found = await start_reading(parts)
    return StreamingResponse(_list_of(found, view), media_type="application/json")


async def stream_object(
    members: Mapping[str, Any],
    lists: Sequence[tuple[str, AsyncIterator[Sequence[Any]], View[Any]]],
    last: Callable[[], Mapping[str, Any]] = dict,
) -> StreamingResponse:
    """A response with an object of these members, followed by those whose values are long lists, each by its name, its
    parts and the view of a part. They are read one after another. `last`: members that are known when all were read.
    """
    started = [(name, await start_reading(parts), view) for name, parts, view in lists]

    async def chunks() -> AsyncIterator[bytes]:
        yield encode_json(dict(members))[:-1]
        comma = b"," if members else b""
        for name, parts, view in started:
            yield comma + encode_json(name) + b":"
            async for chunk in _list_of(parts, view):
                yield chunk
            comma = b","
        end = encode_json(dict(last()))[1:]
        yield end if end == b"}" else comma + end

    return StreamingResponse(chunks(), media_type="application/json")


async def _list_of(parts: AsyncIterator[Sequence[_T]], view: View[_T]) -> AsyncIterator[bytes]:
    before = b"["
    async for part in parts:
        text = (await asyncio.to_thread(lambda part=part: encode_json(view(part))))[1:-1]
        if text:
            yield before + text
            before = b","
    yield b"]" if before == b"," else b"[]"

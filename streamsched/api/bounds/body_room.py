"""The room for the bodies of all requests of a process."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from starlette.exceptions import HTTPException

from streamsched.api.bounds.request_limits import MOST_IN_A_BODY

#: A body with at most so many values is decoded at once, without a share of those of all bodies.
FEW_VALUES: Final = 20_000
#: Seconds until a body that waits for its share is refused.
_PATIENCE_S: Final = 20.0
#: Bytes of a body after which memory is cleaned up, and seconds until then.
_MUCH: Final = 1024 * 1024
_COLLECT_S: Final = 0.1


class BodyRoom:
    """Bounds the bodies that are held at one time: their bytes, and the values of those that are decoded. A body takes
    room as it arrives. One client may have as many bytes as are free for the others: never all. There is room for three
    bodies of the largest size; a client alone may have half of it.

    Attributes:
        largest: bytes of a body.
    """

    def __init__(self, largest: int) -> None:
        self.largest: Final = largest
        self._most = 3 * largest
        self._bytes = Counter[str]()
        self._values = 0
        self._left = asyncio.Condition()
        self._collecting: asyncio.TimerHandle | None = None

    @contextmanager
    def place(self, client: str) -> Iterator[BodyPlace]:
        """Room for one body of a client, by its address, until the end of the block."""
        place = BodyPlace(self._bytes, client, self._most)
        try:
            yield place
        finally:
            if place.leave() > _MUCH:
                self._collect_soon()

    def _collect_soon(self) -> None:
        """An error whose traceback refers to itself would keep a body until Python looks for such cycles by itself,
        which it does by the number of objects, not by their size.
        """
        if self._collecting is None or self._collecting.when() <= asyncio.get_running_loop().time():
            self._collecting = asyncio.get_running_loop().call_later(_COLLECT_S, gc.collect)

    @asynccontextmanager
    async def hold_values(self, values: int) -> AsyncIterator[None]:
        """Waits until so many values may be decoded, and counts them until the end of the block.

        Raises:
            HTTPException: 503, others took too long.
        """
        if values <= FEW_VALUES:
            yield
            return
        async with self._left:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._left.wait_for(lambda: self._values + values <= MOST_IN_A_BODY or not self._values)
            except TimeoutError:
                raise _refusal() from None
            self._values += values
        try:
            yield
        finally:
            self._values -= values
            async with self._left:
                self._left.notify_all()


class BodyPlace:
    """The room that one body has."""

    def __init__(self, held: Counter[str], client: str, most: int) -> None:
        self._held = held
        self._client = client
        self._most = most
        self._own = 0

    def grow(self, size: int) -> None:
        """Takes room for more bytes.

        Raises:
            HTTPException: 503, there is none.
        """
        free = self._most - self._held.total() - size
        if self._held[self._client] + size > free:
            raise _refusal()
        self._held[self._client] += size
        self._own += size

    def leave(self) -> int:
        """Gives the room back; returns how much it was."""
        left, self._own = self._own, 0
        self._held[self._client] -= left
        if not self._held[self._client]:
            del self._held[self._client]
        return left


def _refusal() -> HTTPException:
    return HTTPException(
        503, "the bodies of other requests take the room for this one; repeat it", headers={"Retry-After": "2"}
    )

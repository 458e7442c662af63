"""The decisions about jobs and runs as server-sent events, for any number of clients with one reader of the history.

What a client costs is a number: how far it has read. The newest lines are in a buffer that all clients share; a client
that is further behind reads its own lines from the history, one page at a time, as fast as it takes them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing
from math import inf
from typing import Final

import structlog

from streamsched.api.rendering import encode_json
from streamsched.api.streams.places import Places
from streamsched.api.streams.server_sent import alive, server_event
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import (
    ConflictError,
    ForbiddenError,
    StreamschedError,
    UnauthenticatedError,
    UnavailableError,
)
from streamsched.domain.webhooks.change import WorkLine
from streamsched.ports.work_history import WorkHistory
from streamsched.wire.decisions import DECISION

log = structlog.get_logger()

#: Most clients of one process.
MOST_CLIENTS: Final = 200
#: Lines in the buffer, and in one page of a client.
KEPT: Final = 5000
_PAGE: Final = 200
_READ: Final = 1000
#: Seconds between two reads of the history, while there are clients.
EVERY_S: Final = 0.5
#: Seconds between two checks of a client's permission: less than one together with those for which a verdict about a
#: token is reused.
_ALLOWED_S: Final = 0.4
#: Seconds without a line after which a sign of life is sent.
_ALIVE_S: Final = 15.0
_RETRY_MS: Final = 3000


class DecisionFeed:
    """Belongs to one event loop. The reader runs while there is a client."""

    def __init__(
        self, history: WorkHistory, *, every_s: float = EVERY_S, kept: int = KEPT, most: int = MOST_CLIENTS
    ) -> None:
        self._history = history
        self._every_s = every_s
        self._size = kept
        self.places = Places("follow decisions", most)
        self._lines: list[WorkLine] = []
        self._from = 0  # the buffer has all lines after this number, up to `_known`
        self._known: int | None = None
        self._news = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def clients(self) -> int:
        return self.places.total

    async def follow(
        self,
        caller: Caller,
        after: int | None,
        wants: Callable[[WorkLine], bool],
        allowed: Callable[[], Awaitable[object]],
        *,
        most_s: float = inf,
    ) -> AsyncGenerator[bytes, None]:
        """The lines after a number, None: from now on, that a client wants, until it is closed, the server stops, or
        `most_s` seconds have passed.

        `allowed` raises UnauthenticatedError or ForbiddenError when the client may not read them any more; it is asked
        before each page, and twice a second.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self.places.hold(caller))
            except ConflictError as exc:  # others came in between
                yield _end(str(exc))
                return
            stack.callback(self._rest)
            if self._reader is None or self._reader.done():
                self._known = None
                self._reader = asyncio.create_task(self._read())
            ends_s = asyncio.get_running_loop().time() + most_s
            async with aclosing(self._events(after, wants, allowed, ends_s)) as events:
                async for chunk in events:
                    yield chunk

    def close(self) -> None:
        """Ends the streams of all clients, within half a second."""
        self._closed = True

    def _rest(self) -> None:
        """Stops the reader when the last client leaves."""
        if self.places.total <= 1 and self._reader is not None:
            self._reader.cancel()
            self._reader, self._lines = None, []

    async def _events(
        self,
        after: int | None,
        wants: Callable[[WorkLine], bool],
        allowed: Callable[[], Awaitable[object]],
        ends_s: float,
    ) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        position, asked_s, sent_s = after, clock(), clock()
        opened = False
        yield alive()
        while not self._closed and clock() < ends_s:
            if clock() - asked_s >= _ALLOWED_S:
                asked_s = clock()
                try:
                    await allowed()
                except (UnauthenticatedError, ForbiddenError) as exc:
                    yield _end(str(exc))
                    return
                except UnavailableError as exc:
                    log.info("decisions.not_asked", reason=str(exc))
            if self._known is not None and (position is None or position > self._known):
                position = self._known
            if not opened and position is not None and self._known is not None:
                opened = True
                yield server_event("open", "{}", event_id=position, retry_ms=_RETRY_MS)
            try:
                lines, position = await self._page(position)
            except UnavailableError as exc:
                log.info("decisions.interrupted", reason=str(exc))
                lines = []
                await asyncio.sleep(_ALLOWED_S)
            if lines is None:
                if clock() - sent_s >= _ALIVE_S:
                    sent_s = clock()
                    yield alive(position)
                continue
            wanted = [_event(line) for line in lines if wants(line)]
            if wanted:
                sent_s = clock()
                yield b"".join(wanted)

    async def _page(self, position: int | None) -> tuple[Sequence[WorkLine] | None, int | None]:
        """The lines after a position, and the position after them; None: there are none yet, after a short wait."""
        known = self._known
        if known is None or position is None or position >= known:
            try:
                async with asyncio.timeout(_ALLOWED_S), self._news:
                    await self._news.wait()
            except TimeoutError:
                pass
            return None, position
        if position < self._from:
            upto = self._from
            lines = await self._history.read(position, upto, limit=_PAGE)
        else:
            upto, begin = known, bisect_right(self._lines, position, key=_number)
            lines = self._lines[begin : begin + _PAGE]
        return lines, lines[-1].number if len(lines) == _PAGE else upto

    async def _read(self) -> None:
        while not self._closed:
            try:
                more = await self._step()
            except StreamschedError as exc:
                log.info("decisions.interrupted", reason=str(exc))
                more = False
            if not more:
                await asyncio.sleep(self._every_s)

    async def _step(self) -> bool:
        """Reads the next lines into the buffer; returns whether there may be more."""
        settled = await self._history.settled_number()
        if self._known is None:
            self._lines, self._from, self._known = [], settled, settled
        if settled <= self._known:
            return False
        lines = await self._history.read(self._known, settled, limit=_READ)
        full = len(lines) == _READ
        self._lines += lines
        excess = len(self._lines) - self._size
        if excess > 0:
            self._from = self._lines[excess - 1].number
            del self._lines[:excess]
        self._known = lines[-1].number if full else settled
        async with self._news:
            self._news.notify_all()
        return full


def _end(reason: str) -> bytes:
    return server_event("end", encode_json({"reason": reason}).decode())


def _number(line: WorkLine) -> int:
    return line.number


def _event(line: WorkLine) -> bytes:
    data = DECISION.answer_of(line, job=line.subject if line.kind == "job" else line.job)
    return server_event(line.action, encode_json(data).decode(), event_id=line.number)

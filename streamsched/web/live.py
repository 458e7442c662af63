"""The live feed: one poller reads whether anything has changed, for all open pages of this process.

A page that is notified reads itself again. How often it may is part of the notice, and grows with the number of open
pages, so that all of them together cause at most `REFRESHES_S` reads in a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final

import structlog

from streamsched.api.streams.places import Places
from streamsched.api.streams.server_sent import alive, server_event
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import ConflictError, StreamschedError, UnauthenticatedError, UnavailableError
from streamsched.store.web.page_reads import DataVersion

log = structlog.get_logger()

#: Seconds between two reads of the version.
EVERY_S: Final = 1.0
#: Pages that are read again in a second, by all open pages together.
REFRESHES_S: Final = 4.0
#: Most open pages of one process.
MOST_PAGES: Final = 1000
#: Seconds between two checks of a page's session.
_ALLOWED_S: Final = 3.0
#: Seconds without a notice after which a sign of life is sent.
_ALIVE_S: Final = 15.0
_RETRY_MS: Final = 3000


class LiveFeed:
    """Notices for open pages. The poller runs while a page is open."""

    def __init__(
        self, version: Callable[[], Awaitable[DataVersion]], *, every_s: float = EVERY_S, most: int = MOST_PAGES
    ) -> None:
        self.places = Places("keep pages live", most)
        self._version = version
        self._every_s = every_s
        self._pages: set[asyncio.Queue[str]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def open_pages(self) -> int:
        return len(self._pages)

    async def follow(self, caller: Caller, allowed: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
        """The notices of one page as server-sent events, until it is closed or the server stops. `allowed` raises
        UnauthenticatedError when its session has ended; it is asked every few seconds. Without a place there are none.
        """
        with suppress(ConflictError), self.places.hold(caller):
            async with aclosing(self._notices(allowed)) as notices:
                async for notice in notices:
                    yield notice

    def close(self) -> None:
        """Ends the feeds of all open pages."""
        self._closed = True
        self._notify("end")

    async def _notices(self, allowed: Callable[[], Awaitable[object]]) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        asked_s = sent_s = clock()
        notices: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        self._pages.add(notices)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            yield self._event("open")
            while not self._closed:
                notice = ""
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ALLOWED_S):
                        notice = await notices.get()
                if clock() - asked_s >= _ALLOWED_S:
                    asked_s = clock()
                    try:
                        await allowed()
                    except UnauthenticatedError:
                        return
                    except UnavailableError as exc:
                        log.info("web.session_not_asked", reason=str(exc))
                if notice not in {"", "end"}:
                    sent_s = clock()
                    yield self._event(notice)
                elif clock() - sent_s >= _ALIVE_S:
                    sent_s = clock()
                    yield alive()
        finally:
            self._pages.discard(notices)
            if not self._pages and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    async def _poll(self) -> None:
        known: DataVersion | None = None
        again = False
        while not self._closed:
            try:
                version = await self._version()
            except StreamschedError as exc:
                log.info("web.feed_unavailable", reason=str(exc))
                self._notify("away")
                known = None
            else:
                changed = known is not None and version != known
                # Numbers are taken before their transaction commits: a change is announced twice.
                if changed or again or known is None:
                    self._notify("changed")
                again, known = changed, version
            await asyncio.sleep(self._every_s)

    def _notify(self, notice: str) -> None:
        for page in self._pages:
            if page.full():
                page.get_nowait()
            page.put_nowait(notice)

    def _event(self, notice: str) -> bytes:
        every_ms = round(1000 * max(1.0, len(self._pages) / REFRESHES_S))
        return server_event(notice, str(every_ms), retry_ms=_RETRY_MS)

"""The stream of decisions: each line once and in order for every client, whatever they are behind, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.api.streams import decision_feed
from streamsched.api.streams.decision_feed import DecisionFeed
from streamsched.domain.access.grant import Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import ConflictError, UnauthenticatedError, UnavailableError
from streamsched.domain.webhooks.change import WorkLine

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Lines:
    """A history in memory, which counts what is read of it."""

    def __init__(self) -> None:
        self.lines: list[WorkLine] = []
        self.last = 0
        self.read_lines = 0
        self.away = False

    def add(self, number: int = 1, schedule: str = "a.b.c", reason: str = "why") -> None:
        for _ in range(number):
            self.last += 1
            line = WorkLine(
                number=self.last,
                at=NOON,
                kind="job",
                subject=f"{schedule}.1.{self.last}",
                action="job.waits",
                reason=reason,
                schedule=schedule,
            )
            self.lines.append(line)

    async def settled_number(self) -> int:
        if self.away:
            raise UnavailableError("away")
        return self.last

    async def read(self, after: int, upto: int, *, limit: int, whole: bool = False) -> Sequence[WorkLine]:
        found = [line for line in self.lines if after < line.number <= upto][:limit]
        self.read_lines += len(found)
        return found


class Stream:
    """A client; `numbers` are those of the events that it got."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self.text = b""
        self.events: list[tuple[str, Any]] = []

    async def until(self, number: int) -> list[int]:
        """Reads until so many lines have come, and returns their numbers."""
        async with asyncio.timeout(20):
            while len(self.numbers) < number:
                await self.next()
        return self.numbers

    async def opened(self) -> None:
        async with asyncio.timeout(20):
            while not any(name == "open" for name, _ in self.events):
                await self.next()

    async def end(self) -> None:
        """Returns when the stream has ended."""
        async with asyncio.timeout(20):
            with suppress(StopAsyncIteration):
                while True:
                    await self.next()

    async def next(self) -> None:
        self.text += await anext(self._chunks)
        *blocks, self.text = self.text.split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            if "event" in fields:
                self.events.append((fields["event"], orjson.loads(fields["data"])))

    @property
    def numbers(self) -> list[int]:
        return [data["number"] for name, data in self.events if name == "job.waits"]

    async def close(self) -> None:
        await self._chunks.aclose()  # type: ignore[attr-defined]


async def permitted() -> None: ...


CALLER = Caller("token:a", (Grant(role=AccessRole.VIEWER),))


def client(feed: DecisionFeed, after: int | None = None, schedule: str = "", allowed: Any = permitted) -> Stream:
    return Stream(feed.follow(CALLER, after, lambda line: not schedule or line.schedule == schedule, allowed))


def fed(lines: Lines, **more: Any) -> DecisionFeed:
    return DecisionFeed(lines, every_s=0.001, **more)


async def test_clients_get_each_line_once_wherever_they_begin() -> None:
    lines = Lines()
    lines.add(1000)
    feed = fed(lines, kept=50)
    new, old, other = client(feed), client(feed, 3), client(feed, 990, schedule="d.e.f")
    for each in (new, old, other):
        await each.opened()
    lines.add(300)
    lines.add(1, schedule="d.e.f")
    lines.add(300)
    assert await new.until(601) == list(range(1001, 1602))
    assert await old.until(1598) == list(range(4, 1602))
    assert await other.until(1) == [1301]
    assert feed.clients == 3
    for each in (new, old, other):
        await each.close()
    assert feed.clients == 0


async def test_new_lines_are_read_once_for_all_clients() -> None:
    lines = Lines()
    feed = fed(lines)
    clients = [client(feed) for _ in range(50)]
    for each in clients:
        await each.opened()
    lines.add(1000)
    for each in clients:
        assert await each.until(1000) == list(range(1, 1001))
    assert lines.read_lines == 1000
    for each in clients:
        await each.close()


async def test_a_client_that_does_not_read_costs_nothing_and_misses_nothing() -> None:
    lines = Lines()
    feed = fed(lines, kept=100)
    slow, quick = client(feed), client(feed)
    await slow.opened()
    await quick.opened()
    for _ in range(20):
        lines.add(500)
        await quick.until(lines.last)
    assert len(feed._lines) <= 100
    assert await slow.until(10_000) == list(range(1, 10_001))
    await slow.close()
    await quick.close()


async def test_a_stream_ends_when_it_is_not_permitted_any_more() -> None:
    lines, revoked = Lines(), False
    feed = fed(lines)

    async def allowed() -> None:
        if revoked:
            raise UnauthenticatedError("the token was revoked")

    stream = client(feed, allowed=allowed)
    await stream.opened()
    revoked = True
    began = asyncio.get_running_loop().time()
    await stream.end()
    assert asyncio.get_running_loop().time() - began < 0.9
    assert stream.events[-1] == ("end", {"reason": "the token was revoked"})
    assert feed.clients == 0


async def test_streams_end_when_the_server_stops() -> None:
    feed = fed(Lines())
    streams = [client(feed) for _ in range(3)]
    for each in streams:
        await each.opened()
    feed.close()
    for each in streams:
        await each.end()


async def test_clients_are_limited() -> None:
    feed = fed(Lines(), most=4)
    streams = [client(feed) for _ in range(2)]
    for each in streams:
        await each.opened()
    with pytest.raises(ConflictError):
        feed.places.check(CALLER)
    late = client(feed)
    await late.end()
    assert late.events[-1][0] == "end"
    for each in streams:
        await each.close()
    feed.places.check(CALLER)


async def test_signs_of_life_say_how_far_a_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_feed, "_ALIVE_S", 0.0)
    lines = Lines()
    feed = fed(lines)
    stream = client(feed, schedule="none")
    await stream.opened()
    lines.add(7)
    async with asyncio.timeout(20):
        while await anext(stream._chunks) != b": alive\nid: 7\n\n":
            pass
    await stream.close()


async def test_an_outage_interrupts_and_loses_nothing() -> None:
    lines = Lines()
    feed = fed(lines)
    stream = client(feed)
    await stream.opened()
    lines.away = True
    lines.add(3)
    await asyncio.sleep(0.01)
    lines.away = False
    lines.add(3)
    assert await stream.until(6) == [1, 2, 3, 4, 5, 6]
    await stream.close()


@given(st.text(max_size=80))
def test_a_reason_cannot_end_its_line(reason: str) -> None:
    line = WorkLine(number=1, at=NOON, kind="job", subject="a.b.c.1.1", action="job.waits", reason="x")
    sent = decision_feed._event(
        WorkLine(
            number=1,
            at=NOON,
            kind="job",
            subject="a",
            action="job.waits",
            reason=reason.encode(errors="replace").decode(),
        )
    )
    assert sent.count(b"\n") == decision_feed._event(line).count(b"\n")
    assert b"\r" not in sent

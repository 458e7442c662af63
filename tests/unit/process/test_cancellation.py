"""A task that loses a cancellation ends all the same, and the caller that ends it does not wait forever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.membership.singleton_role import SingletonRole
from streamsched.process.cancellation import cancel
from streamsched.process.supervision import supervise
from streamsched.telemetry.metrics import Metrics

pytestmark = pytest.mark.timeout(60)


class Deaf:
    """A loop that makes an error of its first cancellation, as a driver does whose connection breaks just then."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun = asyncio.Event()

    async def run(self) -> None:
        while True:
            with suppress(UnavailableError):
                await self.wait()

    async def wait(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as exc:
            self.asked += 1
            if self.asked == 1:
                raise UnavailableError("the server went away") from exc
            raise


async def test_a_task_that_swallows_its_first_cancellation_is_asked_again() -> None:
    deaf, other = Deaf(), asyncio.ensure_future(asyncio.Event().wait())
    task = asyncio.create_task(deaf.run())
    await deaf.begun.wait()

    await cancel(task, other, retry_s=0.01)

    assert task.cancelled()
    assert other.cancelled()
    assert deaf.asked == 2


async def test_one_that_ended_before_keeps_its_end() -> None:
    async def fails() -> None:
        raise UnavailableError("no server there")

    failed = asyncio.create_task(fails())
    await asyncio.wait((failed,))
    await cancel(failed)
    await cancel()

    with pytest.raises(UnavailableError, match="no server there"):
        await failed


async def test_one_that_tidies_up_has_the_time_it_was_given() -> None:
    begun, asked, tidied = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tidy() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            asked.set()
            await tidied.wait()

    task = asyncio.create_task(tidy())
    await begun.wait()
    ending = asyncio.create_task(cancel(task, retry_s=30))
    await asked.wait()
    assert not ending.done()
    tidied.set()
    await ending

    assert task.cancelled()


class Held:
    """Leases that no other member wants, until `lost`."""

    def __init__(self) -> None:
        self.lost = False

    async def claim(self, names: Any, owner: str, ttl: timedelta, *, reads: int = 1) -> dict[str, int]:
        return {} if self.lost else dict.fromkeys(names, 1)

    async def renew(self, held: Any, owner: str, ttl: timedelta) -> frozenset[str]:
        return frozenset() if self.lost else frozenset(held)

    async def release(self, held: Any, owner: str) -> None:
        return None


async def test_a_part_that_is_lost_is_left_by_work_that_was_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.membership.singleton_role.CLOSING_S", 0.01)
    leases, deaf, ended = Held(), Deaf(), asyncio.Event()

    async def work() -> None:
        try:
            await deaf.run()
        finally:
            ended.set()

    part = SingletonRole(leases, "relay", "me", ttl=timedelta(milliseconds=40))  # type: ignore[arg-type]
    running = asyncio.create_task(part.run(work))
    await deaf.begun.wait()
    leases.lost = True
    await ended.wait()
    assert deaf.asked == 2

    await cancel(running)


async def test_a_supervised_loop_that_fails_instead_of_ending_is_not_started_again() -> None:
    deaf, lives = Deaf(), list[int]()

    async def loop() -> None:
        lives.append(1)
        await deaf.wait()

    supervising = asyncio.create_task(supervise({"deaf": loop}, metrics=Metrics()))
    await deaf.begun.wait()
    await cancel(supervising, retry_s=30)

    assert supervising.cancelled()
    assert (deaf.asked, len(lives)) == (1, 1)

"""What ends something because of time waits while the clock is in doubt."""

from __future__ import annotations

import asyncio

import pytest

from streamsched.process import run_forever as module
from streamsched.process.cancellation import cancel
from streamsched.process.run_forever import run_forever
from streamsched.testing.clock import SettableClock


async def test_a_step_that_ends_things_is_not_called_while_the_clock_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_DOUBT_S", 0.001)
    clock, calls, called = SettableClock(), 0, asyncio.Event()

    async def step() -> float:
        nonlocal calls
        calls += 1
        called.set()
        return 0.001

    clock.in_doubt = True
    running = asyncio.ensure_future(run_forever(step, called="test", ending_by=clock))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert calls == 0

    clock.in_doubt = False
    await asyncio.wait_for(called.wait(), 10)
    clock.in_doubt = True
    await asyncio.sleep(0.01)
    before = calls
    await asyncio.sleep(0.05)

    assert calls - before <= 1
    await cancel(running)

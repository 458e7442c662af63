import asyncio

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.supervisor import supervise
from streamsched.telemetry.metrics import Metrics


async def test_a_loop_that_dies_is_started_again_and_disturbs_no_other() -> None:
    metrics, lives, other_cancelled = Metrics(), [], asyncio.Event()
    alive = asyncio.Event()

    async def mortal() -> None:
        lives.append(1)
        if len(lives) == 1:
            raise ValueError("boom")
        alive.set()
        await asyncio.Event().wait()

    async def steady() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            other_cancelled.set()
            raise

    task = asyncio.create_task(supervise({"mortal": mortal, "steady": steady}, metrics=metrics))
    await asyncio.wait_for(alive.wait(), 5)
    assert not other_cancelled.is_set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other_cancelled.is_set()
    assert b'task_restarts_total{task="mortal"} 1.0' in metrics.render()


async def test_a_wrong_installation_ends_all() -> None:
    async def wrong() -> None:
        raise ConfigurationError("topic 'signals' has 4 partitions, not 8")

    async def steady() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ConfigurationError, match="4 partitions"):
        await supervise({"wrong": wrong, "steady": steady}, metrics=Metrics())


async def test_a_loop_that_returns_is_done() -> None:
    async def short() -> None:
        return

    await asyncio.wait_for(supervise({"short": short}, metrics=Metrics()), 5)

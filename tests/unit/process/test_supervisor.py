import asyncio

import pytest
from structlog.testing import capture_logs

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.process.supervision import supervise, wait_until_available
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


async def test_what_is_away_is_waited_for_and_said_once() -> None:
    asked: list[int] = []

    async def opened() -> str:
        asked.append(1)
        if len(asked) < 4:
            raise UnavailableError("no server there")
        return "open"

    with capture_logs() as said:
        found = await asyncio.wait_for(wait_until_available("log", opened), 30)

    assert (found, len(asked)) == ("open", 4)
    assert [(line["event"], line["what"]) for line in said] == [("role.waits", "log"), ("role.waited", "log")]
    assert said[0]["reason"] == "no server there"


async def test_what_cannot_become_right_by_waiting_is_not_waited_for() -> None:
    async def refused() -> None:
        raise ConfigurationError("wrong password")

    with pytest.raises(ConfigurationError, match="wrong password"):
        await asyncio.wait_for(wait_until_available("database", refused), 5)

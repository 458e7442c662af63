"""Who gives no sign of life is stuck: the loop, or a shard; who was only stopped for a while is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from structlog.testing import capture_logs

from streamsched.stream.shards.watchdog import STUCK, Watchdog
from streamsched.telemetry.shard_stats import ShardStats

LOOKS = 100


class Reports:
    """Stands in for the end of the process."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.loop = asyncio.get_running_loop()
        self.over = asyncio.Event()

    def __call__(self, code: int) -> None:
        self.code = code
        self.loop.call_soon_threadsafe(self.over.set)


async def first_stuck(dog: Watchdog, between: Callable[[], None] = lambda: None) -> str | None:
    for _ in range(LOOKS):
        if (stuck := dog.check()) is not None:
            return stuck
        await asyncio.sleep(0)
        between()
    return None


async def test_a_shard_that_goes_on_is_not_stuck_even_when_nothing_comes() -> None:
    stats = ShardStats()

    assert await first_stuck(Watchdog(lambda: {0: stats}, patience_s=1), lambda: stats.enter("reading")) is None


async def test_a_shard_that_hangs_is_stuck_whatever_the_others_do() -> None:
    hangs, works = ShardStats(doing="reading"), ShardStats()

    assert (
        await first_stuck(Watchdog(lambda: {0: works, 3: hangs}, patience_s=1), lambda: works.enter("reading"))
        == "shard 3"
    )


async def test_shards_that_wait_for_a_log_that_is_away_are_excused() -> None:
    assert await first_stuck(Watchdog(lambda: {0: ShardStats()}, patience_s=1, excused=lambda: True)) is None


async def test_a_loop_that_is_blocked_is_stuck() -> None:
    dog = Watchdog(dict, patience_s=1)

    assert [dog.check() for _ in range(LOOKS)][-1] == "loop"


async def test_the_process_ends_with_a_last_line_that_says_where_it_hung() -> None:
    ended = Reports()
    dog = Watchdog(lambda: {7: ShardStats(doing="reading")}, patience_s=0.2, end=ended)
    with capture_logs() as lines, dog.watch():
        await asyncio.wait_for(ended.over.wait(), 20)

    assert ended.code == STUCK
    (line,) = [line for line in lines if line["event"] == "worker.stuck"]
    assert (line["stuck"], line["shards"]) == ("shard 7", {7: "reading"})
    assert "loop_at" in line

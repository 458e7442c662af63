"""Reading of a run's metrics beside the run: sources that hang or fail hold up nothing."""

from __future__ import annotations

import asyncio
import threading
import time

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.spark.metrics.reading import MetricsReader


class Source:
    """Gives these results one after the other: metrics, an error, or an event to wait for."""

    def __init__(self, *results: RunMetrics | Exception | threading.Event | None, left: int = 0) -> None:
        self.results = list(results)
        self.left = left
        self.over = threading.Event()
        self.closed = threading.Event()
        self.used_up = threading.Event()

    def read(self) -> RunMetrics | None:
        self.left -= 1
        result = self.results.pop(0) if self.results else None
        if not self.results:
            self.used_up.set()
        if isinstance(result, Exception):
            raise result
        if isinstance(result, threading.Event):
            result.wait()
            return None
        return result

    def is_finished(self) -> bool:
        return self.left <= 0

    def note_end(self) -> None:
        self.over.set()

    def close(self) -> None:
        self.closed.set()


async def test_the_rest_is_read_at_the_end() -> None:
    parts = [RunMetrics(tasks_done=number) for number in range(1, 4)]
    source = Source(*parts, left=3)
    reader = MetricsReader(source, run="r", every=3600)

    assert await reader.finish(within=30) == parts[-1]
    assert source.over.is_set()
    assert source.closed.is_set()


async def test_a_source_that_never_ends_is_closed_in_time() -> None:
    source = Source(left=10**9)
    reader = MetricsReader(source, run="r", every=3600)

    assert await reader.finish(within=0.5) is None
    assert await asyncio.to_thread(source.closed.wait, 30)


async def test_a_source_that_another_reads_on_is_not_closed() -> None:
    source = Source(RunMetrics(tasks=1))
    assert await MetricsReader(source, run="r", every=3600).finish(within=30, close=False) == RunMetrics(tasks=1)
    assert not source.closed.is_set()


async def test_a_source_that_fails_is_asked_again_and_keeps_what_was_read() -> None:
    source = Source(RunMetrics(tasks=1), OSError("gone"), ValueError("garbage"), left=3)
    reader = MetricsReader(source, run="r", every=0.001)
    assert await asyncio.to_thread(source.used_up.wait, 30)
    assert await reader.finish(within=30) == RunMetrics(tasks=1)
    assert source.closed.is_set()


async def test_a_source_that_hangs_delays_the_end_no_longer_than_allowed() -> None:
    hanging = threading.Event()
    reader = MetricsReader(Source(hanging), run="r", every=0.001)
    began = time.monotonic()
    try:
        assert await reader.finish(within=0.2) is None
        assert time.monotonic() - began < 10
    finally:
        hanging.set()

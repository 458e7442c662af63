"""Stores the status of a worker's shards in PostgreSQL every two seconds, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.ports.reports import REPORT_EVERY_S, ReportStore, ShardReport
from streamsched.telemetry.shard_stats import ShardStats

log = structlog.get_logger()


class ShardStatusSource(Protocol):
    """What is reported on: a worker."""

    def shard_stats(self) -> Mapping[int, ShardStats]:
        """By number, of the shards that it runs now."""
        ...

    def epoch(self, shard: int) -> int | None:
        """That of its ownership of a shard; None when it does not own it."""
        ...


class StatusReporter:
    """Reports rates per second since the previous report."""

    def __init__(
        self, worker: ShardStatusSource, reports: ReportStore, name: str, *, every_s: float = REPORT_EVERY_S
    ) -> None:
        """`name`: the worker's identity."""
        self._worker = worker
        self._reports = reports
        self._name = name
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._before: Mapping[int, tuple[int, int]] = {}
        #: By shard, the last progress counter and the loop time at which it was first seen.
        self._progress: Mapping[int, tuple[int, float]] = {}
        self._reported_at = self._loop.time()

    async def run(self) -> None:
        """Reports until cancelled. While PostgreSQL is unavailable the stored report becomes stale."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.run_once()
            except UnavailableError as error:
                log.debug("worker.report_failed", reason=str(error))
            except Exception as error:  # may be transient, and reporting must go on
                log.exception("worker.report_failed", error=repr(error))

    async def run_once(self) -> Sequence[ShardReport]:
        """Stores one report and returns it.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        stats, now = self._worker.shard_stats(), self._loop.time()
        seconds = max(now - self._reported_at, 1e-3)
        self._progress = {number: self._last_progress(number, each.progress, now) for number, each in stats.items()}
        report = [
            _report(
                number, epoch, each, self._before.get(number, (0, 0)), seconds, silent_s=now - self._progress[number][1]
            )
            for number, each in sorted(stats.items())
            if (epoch := self._worker.epoch(number)) is not None
        ]
        self._before = {number: (each.turns, each.records) for number, each in stats.items()}
        self._reported_at = now
        await self._reports.save(self._name, report)
        return report

    def _last_progress(self, number: int, progress: int, now: float) -> tuple[int, float]:
        """The progress counter, and the loop time at which it was first seen."""
        known = self._progress.get(number)
        return known if known is not None and known[0] == progress else (progress, now)


def _report(
    number: int, epoch: int, stats: ShardStats, before: tuple[int, int], seconds: float, *, silent_s: float
) -> ShardReport:
    turns, records = before
    return ShardReport(
        shard=number,
        epoch=epoch,
        doing=stats.doing,
        turns_s=max(0, stats.turns - turns) / seconds,
        records_s=max(0, stats.records - records) / seconds,
        chunk=stats.chunk,
        recovery_s=stats.recovery_s,
        rows=stats.rows,
        halted=stats.halted,
        positions=stats.positions,
        silent_s=silent_s,
        waiting_since=stats.waiting_since,
        deleted=stats.deleted,
    )

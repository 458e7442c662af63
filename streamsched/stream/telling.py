"""A worker tells how its shards are, all of them together, every two seconds. Nothing waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.ports.reports import EVERY_S, Report, Reports
from streamsched.stream.signs import Signs

log = structlog.get_logger()


class Telltale(Protocol):
    """What is told of: a worker."""

    def signs(self) -> Mapping[int, Signs]: ...

    def epoch(self, shard: int) -> int | None: ...


class Telling:
    """Rates are those between two reports."""

    def __init__(self, worker: Telltale, reports: Reports, name: str, *, every_s: float = EVERY_S) -> None:
        """`name`: the worker's identity."""
        self._worker = worker
        self._reports = reports
        self._name = name
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._before: Mapping[int, tuple[int, int]] = {}
        self._signs: Mapping[int, tuple[int, float]] = {}
        self._told_at = self._loop.time()

    async def run(self) -> None:
        """Tells until cancelled. Where PostgreSQL is away nothing is told, and what was told before grows old."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.run_once()
            except UnavailableError as error:
                log.debug("worker.untold", reason=str(error))
            except Exception as error:  # whatever it is, it may pass, and nobody would tell again
                log.exception("worker.untold", error=repr(error))

    async def run_once(self) -> Sequence[Report]:
        """Tells once; what was told.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        signs, now = self._worker.signs(), self._loop.time()
        seconds = max(now - self._told_at, 1e-3)
        self._signs = {number: self._sign(number, each.progress, now) for number, each in signs.items()}
        told = [
            _report(
                number, epoch, each, self._before.get(number, (0, 0)), seconds, silent_s=now - self._signs[number][1]
            )
            for number, each in sorted(signs.items())
            if (epoch := self._worker.epoch(number)) is not None
        ]
        self._before = {number: (each.turns, each.records) for number, each in signs.items()}
        self._told_at = now
        await self._reports.tell(self._name, told)
        return told

    def _sign(self, number: int, progress: int, now: float) -> tuple[int, float]:
        """The last sign of life, and when it was first seen."""
        known = self._signs.get(number)
        return known if known is not None and known[0] == progress else (progress, now)


def _report(
    number: int, epoch: int, signs: Signs, before: tuple[int, int], seconds: float, *, silent_s: float
) -> Report:
    turns, records = before
    return Report(
        shard=number,
        epoch=epoch,
        doing=signs.doing,
        turns_s=max(0, signs.turns - turns) / seconds,
        records_s=max(0, signs.records - records) / seconds,
        chunk=signs.chunk,
        recovery_s=signs.recovery_s,
        rows=signs.rows,
        halted=signs.halted,
        positions=signs.positions,
        silent_s=silent_s,
    )

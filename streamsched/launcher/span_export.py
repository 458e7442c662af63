"""Sends the spans of jobs and runs that have ended, made from what is stored about them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.jobs.spans import job_spans, run_spans
from streamsched.domain.limits import add_duration
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.store.jobs.spans import SpanStore
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.queue import SpanSender
from streamsched.telemetry.traces.settings import TraceSettings

log = structlog.get_logger()

#: Spans that were not accepted so long after the end are dropped. Ended rows stay in their tables for an hour.
GIVE_UP: Final = timedelta(minutes=30)


class SpanExport:
    """One of an installation at a time. Nothing waits for it: while the receiver is away, spans stay due."""

    def __init__(
        self, store: SpanStore, sender: SpanSender, settings: TraceSettings, clock: Clock, metrics: Metrics
    ) -> None:
        self._store = store
        self._sender = sender
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._failures = 0

    async def run(self) -> None:
        """Sends until cancelled; retries while PostgreSQL or the receiver is unavailable."""
        await run_forever(self.run_once, called="span_export")

    async def run_once(self) -> float:
        """Sends one batch and settles it after it was accepted. A process that ends in between leaves it due, and the
        next one sends the same spans, with the same ids. Returns the seconds until the next call.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        every = self._settings.every.total_seconds()
        dropped = 0
        if not self._clock.in_doubt:
            dropped = await self._store.drop_ended_before(add_duration(self._clock.now(), -GIVE_UP))
        due = await self._store.list_due(limit=self._settings.batch)
        spans = [span for job in due.jobs for span in job_spans(job, self._settings.sampler)]
        spans += [span for run in due.runs for span in run_spans(run, self._settings.sampler)]
        unreadable = sum(map(len, due.unreadable))
        if dropped:
            log.warning("spans.dropped", jobs_and_runs=dropped, after_s=GIVE_UP.total_seconds())
            self._metrics.add("spans_dropped_total", dropped, why="not accepted in time")
        if unreadable:
            self._metrics.add("spans_dropped_total", unreadable, why="unreadable")
        if spans and not await self._sender.send(spans):
            self._failures += 1
            pause = self._settings.pause(self._failures)
            log.warning("spans.not_accepted", spans=len(spans), again_in_s=pause)
            return pause
        self._failures = 0
        if due.count:
            await self._store.settle(due, sent=True)
            self._metrics.add("spans_sent_total", len(spans))
        full = max(len(due.jobs), len(due.runs)) >= self._settings.batch
        return 0.0 if full else every

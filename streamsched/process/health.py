"""The health of a process: liveness, readiness and metrics, served by `api/health.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from streamsched.domain.errors import StreamschedError
from streamsched.ports.broker import Broker
from streamsched.ports.server import Gauges, QueueMeasures, WebhookMeasures
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.shard_stats import ShardStats

#: Seconds within which a dependency must answer.
_READY_WITHIN: Final = 3.0
#: A shard without progress for this part of the watchdog's patience is not ready.
_QUIET: Final = 0.5
_NOT_CONSUMING: Final = frozenset({"starting", "pausing"})

Question = Callable[[], Coroutine[Any, Any, object]]


class WorkerStatus(Protocol):
    """The part of a worker that health uses."""

    @property
    def joined(self) -> bool:
        """Whether it is a member of the workers."""
        ...

    def shard_stats(self) -> Mapping[int, ShardStats]:
        """By shard."""
        ...


class ProgressWatch(Protocol):
    """The part of a watchdog that health uses: seconds without progress by loop or shard, and the limit."""

    @property
    def patience_s(self) -> float: ...

    def silent_s(self) -> Mapping[str, float]: ...


class DatabaseClock(Protocol):
    """The part of the clock that health uses."""

    @property
    def ahead(self) -> timedelta:
        """How far the database's clock is ahead of the time that the process goes by."""
        ...

    @property
    def doubt(self) -> str | None:
        """What is wrong with it; None: nothing."""
        ...


class ProcessHealth:
    """The health of one process with any roles: by name of a check None, or why it is unhealthy."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self._questions: dict[str, Question] = {}
        self._worker: WorkerStatus | None = None
        self._watchdog: ProgressWatch | None = None
        self._clock: DatabaseClock | None = None

    def require(self, what: str, question: Question) -> None:
        """The process is ready only while `question` succeeds. Before the first call it counts as starting."""
        self._questions[what] = question

    def attach_worker(self, worker: WorkerStatus, watchdog: ProgressWatch | None) -> None:
        """Sets the worker of this process, replacing a former one."""
        self._worker, self._watchdog = worker, watchdog

    def attach_clock(self, clock: DatabaseClock) -> None:
        """Sets the clock of the database."""
        self._clock = clock

    def live(self) -> Mapping[str, str | None]:
        """Liveness: by name None, or since when the loop or a shard is stuck. A blocked event loop gives no answer."""
        silent, patience = self._silent()
        stuck = {name: f"stuck for {seconds:.0f} s" for name, seconds in silent.items() if seconds >= patience}
        return {"loop": None, **stuck}

    async def ready(self) -> Mapping[str, str | None]:
        """Readiness: of each dependency, and of each shard held."""
        if not self._questions:
            return {"process": "is starting: it waits for its database, its schema or its log"}
        answers = await asyncio.gather(*(_wrong(question()) for question in self._questions.values()))
        return {**dict(zip(self._questions, answers, strict=True)), **self._shards()}

    def remarks(self) -> Mapping[str, str | None]:
        """What a person should know of and what makes no process unready: with a clock in doubt all go on."""
        return {} if self._clock is None else {"clock": self._clock.doubt}

    def measure(self) -> None:
        """Sets the metrics of the clock, and of the shards held."""
        if self._clock is not None:
            self.metrics.replace("clock_ahead_seconds", [({}, self._clock.ahead.total_seconds())])
        stats = {} if self._worker is None else self._worker.shard_stats()
        by_shard = [({"shard": str(number)}, each) for number, each in sorted(stats.items())]
        replace = self.metrics.replace
        replace("shard_consuming", [(label, each.doing not in _NOT_CONSUMING) for label, each in by_shard])
        replace("shard_turns", [(label, each.turns) for label, each in by_shard])
        replace("shard_records", [(label, each.records) for label, each in by_shard])
        replace("shard_rows", [(label, each.rows) for label, each in by_shard])
        replace("shard_schedules_in_error", [(label, each.halted) for label, each in by_shard])
        replace("shard_keys_lost", [(label, each.lost_keys) for label, each in by_shard])
        replace("shard_events_refused", [(label, each.refused) for label, each in by_shard])
        replace("shard_recovery_seconds", [(label, each.recovery_s) for label, each in by_shard])

    def _shards(self) -> Mapping[str, str | None]:
        if self._worker is None:
            return {}
        silent, patience = self._silent()
        found: dict[str, str | None] = {"membership": None if self._worker.joined else "is not a member of the workers"}
        for number, stats in sorted(self._worker.shard_stats().items()):
            name, doing = f"shard {number}", stats.doing
            quiet = silent.get(name, 0.0)
            if doing in _NOT_CONSUMING:
                found[name] = f"is {doing}"
            else:
                found[name] = f"no progress for {quiet:.0f} s while {doing}" if quiet > _QUIET * patience else None
        return found

    def _silent(self) -> tuple[Mapping[str, float], float]:
        return ({}, 0.0) if self._watchdog is None else (self._watchdog.silent_s(), self._watchdog.patience_s)


async def measure_installation(metrics: Metrics, gauges: Gauges, broker: Broker, shards: int, *, now: datetime) -> None:
    """Sets the metrics of the whole installation; any process may do so.

    Raises:
        UnavailableError: the database or the log is unavailable.
    """
    measures = await gauges.measure(now=now)
    reported = {shard: each for shard, each in measures.shard_positions.items() if shard < shards}
    at_shards = [at for positions in reported.values() for at in positions]
    ends = await broker.ends([*measures.positions, *at_shards])
    metrics.replace("jobs_waiting", [({"state": state}, amount) for state, amount in measures.jobs.items()])
    metrics.replace("runs_active", [({"state": state}, amount) for state, amount in measures.runs.items()])
    metrics.replace("schedules", [({"enabled": str(on).lower()}, n) for on, n in measures.schedules.items()])
    metrics.replace("outbox_records", [({}, measures.outbox)])
    overdue = {"ticks": measures.ticks, "wake-ups": measures.wakes}
    metrics.replace("timers_overdue", [({"kind": kind}, amount) for kind, amount in overdue.items()])
    metrics.replace("timers_late_seconds", [({}, measures.late)])
    metrics.replace("expectations_missing", [({"namespace": name}, n) for name, n in measures.missing.items()])
    metrics.replace("expectations_late_seconds", [({}, measures.unjudged)])
    verdicts = measures.verdicts.items()
    metrics.replace("verdicts", [({"verdict": verdict, "late": late}, n) for (verdict, late), n in verdicts])
    metrics.replace("jobs_held", [({"by": by}, amount) for by, amount in measures.held.items()])
    metrics.replace("jobs_ended_lately", [({"state": state}, n) for state, n in measures.jobs_ended.items()])
    ended = measures.runs_ended.items()
    metrics.replace("runs_ended_lately", [({"program": program, "state": state}, n) for (program, state), n in ended])
    uses = [({"namespace": use.namespace, "quota": use.quota.value}, use.ratio or 0.0) for use in measures.quotas]
    metrics.replace("quota_use_ratio", uses)
    metrics.replace("shards_leased", [({}, measures.shards)])
    metrics.replace("shards", [({}, shards)])
    behind = {
        shard: sum(max(0, ends.get(at, 0) - position) for at, position in positions.items())
        for shard, positions in reported.items()
    }
    metrics.replace("shard_lag_records", [({"shard": str(shard)}, lag) for shard, lag in sorted(behind.items())])
    _measure_queues(metrics, measures.queues)
    _measure_webhooks(metrics, measures.webhooks)
    lags = {at: ends[at] - position for at, position in measures.positions.items() if at in ends}
    metrics.replace(
        "intake_lag_records",
        [({"topic": at.topic, "partition": str(at.partition)}, lag) for at, lag in lags.items()],
    )


def _measure_webhooks(metrics: Metrics, webhooks: Mapping[str, WebhookMeasures]) -> None:
    by_id = [({"webhook": name}, each) for name, each in sorted(webhooks.items())]
    metrics.replace("webhook_queued", [(label, each.queued) for label, each in by_id])
    metrics.replace("webhook_failing_seconds", [(label, each.failing) for label, each in by_id])
    metrics.replace("webhook_given_up", [(label, each.given_up) for label, each in by_id])


def _measure_queues(metrics: Metrics, queues: Mapping[str, QueueMeasures]) -> None:
    by_queue = [({"queue": name}, each) for name, each in sorted(queues.items())]
    metrics.replace("queue_lanes_in_flight", [(label, each.in_flight) for label, each in by_queue])
    metrics.replace("queue_lanes_due", [(label, each.due) for label, each in by_queue])
    metrics.replace("queue_lanes_staged", [(label, each.staged) for label, each in by_queue])
    metrics.replace("queue_lanes_stuck", [(label, each.stuck) for label, each in by_queue])
    metrics.replace("queue_tasks_stale", [(label, each.stale) for label, each in by_queue])
    metrics.replace("queue_late_seconds", [(label, each.late) for label, each in by_queue])


async def _wrong(question: Coroutine[Any, Any, object]) -> str | None:
    """Why the question failed; None when it succeeded."""
    try:
        async with asyncio.timeout(_READY_WITHIN):
            await question
    except TimeoutError:
        return f"does not answer within {_READY_WITHIN:g} s"
    except StreamschedError as exc:
        return str(exc)
    return None

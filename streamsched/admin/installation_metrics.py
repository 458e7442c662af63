"""The metrics of a whole installation, which any of its processes shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from streamsched.ports.broker import Broker
from streamsched.store.server.gauges import Gauges, QueueMeasures, WebhookMeasures
from streamsched.telemetry.metrics import Metrics


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
    metrics.replace("snapshot_held_seconds", [({}, measures.snapshot)])
    metrics.replace("machine_clock_ahead_seconds", [({"host": host}, s) for host, s in measures.machines.items()])
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


def _measure_webhooks(metrics: Metrics, webhooks: Sequence[WebhookMeasures]) -> None:
    by_id = [({"webhook": each.id}, each) for each in webhooks]
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

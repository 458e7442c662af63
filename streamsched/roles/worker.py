"""The worker, which runs shards by lease."""

from __future__ import annotations

from collections.abc import Mapping

from streamsched.ports.clock import SystemClock
from streamsched.process.supervision import Loop
from streamsched.roles.services import Services
from streamsched.store.jobs.intake import PostgresIntake
from streamsched.store.server.reports import PostgresReportStore
from streamsched.stream.shards.launch_room import LaunchRoom
from streamsched.stream.shards.run_worker import run_worker
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.watchdog import Watchdog
from streamsched.stream.shards.worker import Worker


def worker_loops(services: Services) -> Mapping[str, Loop]:
    """The loops of a worker, which runs shards by lease."""

    launch_room = LaunchRoom(services.broker, PostgresIntake(services.pool).positions, SystemClock())

    async def work() -> None:
        settings, health, me = services.settings, services.broker_health, services.identity
        shards = ShardSettings(
            dedupe_horizon=settings.worker.dedupe_horizon,
            verdicts=bool(settings.keep.verdicts),
            clock=services.clock,
            launch_room=launch_room,
        )
        worker = Worker(services.broker, services.leases, me, ttl=settings.lease, settings=shards, broker_health=health)
        patience_s = settings.worker.stuck_after.total_seconds()
        dog = (
            Watchdog(worker.shard_stats, patience_s=patience_s, excused=lambda: health.is_lost) if patience_s else None
        )
        services.health.attach_worker(worker, dog)
        await run_worker(worker, PostgresReportStore(services.pool), name=me.id, watchdog=dog)

    return {"worker": work, "launch_room": launch_room.run, "broker_health": services.broker_health.run}

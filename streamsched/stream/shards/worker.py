"""A worker: runs the shards whose leases it holds, each in a `ShardRunner`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import structlog

from streamsched.codec.records import formats
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.log.topics import SIGNALS
from streamsched.membership.broker_health import BrokerHealth
from streamsched.membership.member import Member
from streamsched.ports.broker import Broker
from streamsched.ports.leases import LeaseHolder, Leases, shard_lease, shard_of
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.crash_guard import CrashGuard
from streamsched.stream.poison_search import PoisonSearch
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.shards.shard_runner import BackOff, ShardRunner
from streamsched.stream.state_format import StateFormat
from streamsched.telemetry.shard_stats import ShardStats

log = structlog.get_logger()


class Worker:
    """Runs a balanced part of the shards; several workers on one log divide them by leases.

    The lease decides which worker should run a shard, the fence in the log which one can commit: two workers that both
    run a shard for a moment do no harm.
    """

    def __init__(
        self,
        broker: Broker,
        leases: Leases,
        identity: LeaseHolder,
        *,
        ttl: timedelta = timedelta(seconds=5),
        settings: ShardSettings | None = None,
        back_off: BackOff | None = None,
        broker_health: BrokerHealth | None = None,
    ) -> None:
        """`ttl`: how long this worker may send no heartbeat before others take its shards; it sends one each quarter of
        that. `broker_health`: run by the caller; while the log does not answer, this worker leaves its shards to
        others.
        """
        self._broker = broker
        self._leases = leases
        self._identity = identity
        self._ttl = ttl
        self._state_format = StateFormat()
        self._settings = replace(settings or ShardSettings(), state_format=self._state_format)
        self._back_off = back_off or BackOff()
        self._decoder = SignalDecoder()
        self._process = uuid4().hex
        self._careful_turn = asyncio.Lock()
        self._broker_health = broker_health
        self._joined = self._aside = False
        self._others = False
        self._member: Member | None = None
        self._runners: dict[int, tuple[ShardRunner, asyncio.Task[None]]] = {}
        self._stats: dict[int, ShardStats] = {}
        self._stop = asyncio.Event()
        self._cannot_start: ConfigurationError | None = None

    @property
    def shards(self) -> Sequence[int]:
        """The shards this worker runs or is about to run."""
        return sorted(self._runners)

    @property
    def is_member(self) -> bool:
        """Whether it is a member: its first heartbeat succeeded, and it has not stepped aside."""
        return self._joined and not self._aside

    def shard_stats(self) -> Mapping[int, ShardStats]:
        """By shard. Safe to call from any thread."""
        return self._stats.copy()

    def epoch(self, shard: int) -> int | None:
        """The epoch of its lease on a shard; None when it holds none."""
        return None if self._member is None else self._member.epoch(shard_lease(shard))

    async def run(self) -> None:
        """Runs until `stop` or cancellation; then every shard finishes its turn, and the leases are released.

        Raises:
            ConfigurationError: a shard cannot start, and a restart does not help.
        """
        member = await self._membership()
        try:
            while not self._stop.is_set():
                pause = await self.run_once()
                stopping = asyncio.ensure_future(self._stop.wait())
                await asyncio.wait((stopping,), timeout=pause.total_seconds())
                stopping.cancel()
        finally:
            await self._end_all()
            with suppress(UnavailableError):  # the leases expire
                await member.leave()
        if self._cannot_start is not None:
            raise self._cannot_start

    async def stop(self) -> None:
        """Makes `run` end."""
        self._stop.set()

    async def run_once(self) -> timedelta:
        """One heartbeat: starts the shards taken, ends those lost or to be handed over. Returns the time until the
        next.

        Shards start and stop in the background, so a long recovery does not delay heartbeats.
        """
        member = await self._membership()
        try:
            if await self._stepped_aside(member):
                return self._ttl / 4
            step = await member.step()
        except UnavailableError as error:
            log.warning("membership.unavailable", error=str(error))
            return self._ttl / 4
        except ConfigurationError:
            raise
        except Exception as error:  # shards go on without leases: another worker that takes one fences it
            log.exception("membership.failed", error=repr(error))
            return self._ttl / 4
        self._joined, self._others = True, step.others
        self._state_format.format = formats.format_for(step.format)
        for name in step.lost:  # first: a lost shard may have been taken again in the same heartbeat
            self._end(shard_of(name))
        for name in sorted({*step.taken, *self._not_running(member)}):
            self._take(member, shard_of(name))
        for name in step.hand_over:
            self._end(shard_of(name))
        return step.again_in

    def _not_running(self, member: Member) -> Iterator[str]:
        """Leases held for shards that do not run here: renewed, they would keep the shard from running anywhere."""
        for name in member.held_names:
            runner = self._runners.get(shard_of(name))
            if runner is None or runner[1].done():
                yield name

    async def _stepped_aside(self, member: Member) -> bool:
        """Leaves the membership while the log does not answer this process and other workers exist; joins again when
        the log answers. Whether it has left.
        """
        if self._broker_health is None or not self._broker_health.is_lost:
            if self._aside:
                log.info("worker.joined_again", worker=self._identity.id)
            self._aside = False
            return False
        if not self._aside and self._others:
            log.warning(
                "worker.stepped_aside", worker=self._identity.id, log_silent_s=round(self._broker_health.silent_s, 1)
            )
            for runner, _ in list(self._runners.values()):
                runner.end()
            await member.leave()
            self._aside = True
        return self._aside

    async def _membership(self) -> Member:
        if self._member is None:
            names = [shard_lease(shard) for shard in range(await self._broker.partitions(SIGNALS))]
            self._member = Member(self._leases, self._identity, names, ttl=self._ttl, settle=self._ttl)
        return self._member

    def _take(self, member: Member, number: int) -> None:
        log.info("shard.taken", shard=number, worker=self._identity.id)
        before = self._runners.get(number)
        poison_search, stats = PoisonSearch(), ShardStats()
        guard = CrashGuard(number, self._process, self._careful_turn)
        self._stats[number] = stats
        runner = ShardRunner(
            lambda: Shard(
                self._broker,
                number,
                self._settings,
                decoder=self._decoder,
                poison_search=poison_search,
                stats=stats,
                guard=guard,
            ),
            number=number,
            back_off=self._back_off,
        )
        task = asyncio.create_task(self._hold(member, runner, before[1] if before else None))
        self._runners[number] = runner, task
        if before:
            before[0].end()

    async def _hold(self, member: Member, runner: ShardRunner, before: asyncio.Task[None] | None) -> None:
        """Runs a runner after the previous one of the shard on this worker, then releases the lease."""
        if before is not None:
            await asyncio.wait((before,))
        try:
            await runner.run()
        except ConfigurationError as error:
            self._cannot_start = error
            self._stop.set()
        current = self._runners.get(runner.number)
        if current is not None and current[0] is runner:
            del self._runners[runner.number], self._stats[runner.number]
            log.info("shard.released", shard=runner.number, worker=self._identity.id)
            with suppress(UnavailableError):  # the lease expires
                await member.release(shard_lease(runner.number))

    def _end(self, number: int) -> None:
        if number in self._runners:
            self._runners[number][0].end()

    async def _end_all(self) -> None:
        tasks = [task for _, task in self._runners.values()]
        for runner, _ in list(self._runners.values()):
            runner.end()
        if tasks:
            await asyncio.wait(tasks)

"""Which partitions of lanes this process owns, by leases with epochs.

A partition is fenced under its epoch before its first task is started, so a former owner that still runs writes nothing
any more. One that is handed over starts nothing more, and is released when its deliveries have ended. Which partitions
there are is read with each heartbeat, so their number can change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import inf
from typing import Final, Protocol

import structlog

from streamsched.domain.tasks.attempt import StartedTask
from streamsched.membership.member import Member
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder, Leases
from streamsched.store.tasks.delivery import DeliveryStore
from streamsched.store.tasks.partitions import TaskPartitions

log = structlog.get_logger()

_LEASE: Final = "tasks-"


class Deliveries(Protocol):
    """The deliveries of this process, by partition."""

    def count_held(self, partition: int) -> int:
        """How many deliveries of the partition are in flight or not stored."""
        ...

    def forget(self, partition: int) -> None:
        """Stops the deliveries of a partition that has another owner; nothing of them is stored."""
        ...

    def interrupt(self, partition: int) -> None:
        """Stops the deliveries of a partition; their tasks are delivered again, and no attempt is used up."""
        ...


class Ownership:
    """Belongs to one event loop.

    Args:
        patience: how long deliveries may go on when their partition is handed over.
    """

    def __init__(
        self,
        leases: Leases,
        me: LeaseHolder,
        store: DeliveryStore,
        partitions: TaskPartitions,
        clock: Clock,
        *,
        ttl: timedelta,
        patience: timedelta = timedelta(seconds=10),
    ) -> None:
        self._member = Member(leases, me, [], ttl=ttl)
        self._store = store
        self._partitions = partitions
        self._clock = clock
        self._ttl_s = ttl.total_seconds()
        self._leased_until = -inf
        self._patience = patience
        self._unfenced: set[int] = set()
        self._starting: dict[int, int] = {}
        self._draining: dict[int, int] = {}
        self._drain_until: dict[int, float] = {}

    @property
    def starting(self) -> Mapping[int, int]:
        """Partition → epoch of those in which tasks may be started."""
        return self._starting

    @property
    def writing(self) -> Mapping[int, int]:
        """Partition → epoch of those whose deliveries may be stored."""
        return {**self._starting, **self._draining}

    def is_leased(self) -> bool:
        """Whether no other process can have taken these partitions: the last heartbeat was less than a lease ago."""
        return asyncio.get_running_loop().time() < self._leased_until

    async def step(self, deliveries: Deliveries, *, loop_time: float) -> timedelta:
        """Sends a heartbeat, takes, loses and hands over partitions; returns the time until the next call.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        served = (await self._partitions.get()).served
        self._member.share([_lease_of(partition) for partition in served])
        step = await self._member.step()
        self._leased_until = loop_time + self._ttl_s
        for name in step.lost:
            self._remove(_partition_of(name), deliveries)
        self._unfenced |= {_partition_of(name) for name in step.taken}
        # One that was given up and added again meanwhile does not know of its owner.
        self._unfenced |= {each for each, epoch in self._starting.items() if served.get(each, epoch) < epoch}
        await self._fence()
        for name in step.hand_over:
            self._hand_over(_partition_of(name), loop_time)
        for partition in list(self._draining):
            await self._drain(partition, deliveries, loop_time)
        return min(step.again_in, timedelta(milliseconds=50)) if self._draining else step.again_in

    async def fence_again(self, held: Sequence[StartedTask]) -> None:
        """After a start with an unknown outcome: what is in flight and not among `held` waits again.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        await self._store.fence(self.writing, now=self._clock.now(), held=held)

    def stop_starting(self) -> None:
        """Starts nothing more; ends are still stored."""
        self._draining |= self._starting
        self._starting.clear()

    async def leave(self) -> None:
        """Releases everything. Store what has ended first.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the leases expire.
        """
        self._starting.clear()
        self._draining.clear()
        self._unfenced.clear()
        await self._member.leave()

    async def _fence(self) -> None:
        wished = {
            partition: epoch
            for partition in self._unfenced
            if (epoch := self._member.epoch(_lease_of(partition))) is not None
        }
        if not wished:
            self._unfenced.clear()
            return
        fenced = await self._store.fence(wished, now=self._clock.now())
        self._unfenced.clear()
        for partition in sorted(fenced):
            self._starting[partition] = wished[partition]
        log.info("tasks.partitions_taken", partitions=len(fenced), owned=len(self._starting))

    def _remove(self, partition: int, deliveries: Deliveries) -> None:
        for held in (self._starting, self._draining, self._drain_until):
            held.pop(partition, None)
        self._unfenced.discard(partition)
        deliveries.forget(partition)
        log.warning("tasks.partition_lost", partition=partition)

    def _hand_over(self, partition: int, loop_time: float) -> None:
        epoch = self._starting.pop(partition, None)
        if epoch is not None:
            self._draining[partition] = epoch
            self._drain_until[partition] = loop_time + self._patience.total_seconds()

    async def _drain(self, partition: int, deliveries: Deliveries, loop_time: float) -> None:
        if partition not in self._drain_until:
            return
        if deliveries.count_held(partition):
            if loop_time >= self._drain_until[partition]:
                deliveries.interrupt(partition)
            return
        del self._draining[partition], self._drain_until[partition]
        await self._member.release(_lease_of(partition))
        log.info("tasks.partition_handed_over", partition=partition)


def _lease_of(partition: int) -> str:
    return f"{_LEASE}{partition:04d}"


def _partition_of(lease: str) -> int:
    return int(lease.removeprefix(_LEASE))

"""The delivery of tasks: what an owner of lanes reads and writes, and where it delivers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from streamsched.domain.events.event import Event
from streamsched.domain.tasks.attempt import AfterAttempt, AttemptEnd, StartedTask
from streamsched.domain.tasks.queue import Target
from streamsched.ports.tasks.queues import QueueVersion

_LEASE = "tasks-"


def partition_lease(partition: int) -> str:
    """The lease of a partition of lanes."""
    return f"{_LEASE}{partition:04d}"


def leased_partition(name: str) -> int:
    """The partition of a lease."""
    return int(name.removeprefix(_LEASE))


class DeliveryKey(NamedTuple):
    """A task in flight. A task that was registered again has another generation."""

    task: str
    generation: int


@dataclass(frozen=True, slots=True)
class SkippedTicks:
    """So many missed ticks are skipped: the next one is planned for `planned_at` (UTC); None: none is left."""

    planned_at: datetime | None
    ticks: int


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that ended, with what follows.

    Attributes:
        planned_at: planned time of the tick that was delivered.
        event: published in the same transaction.
    """

    task: StartedTask
    end: AttemptEnd
    after: AfterAttempt | SkippedTicks
    event: Event | None = None


class DeliveryStore(Protocol):
    """Writes are guarded by the epochs of partitions: of a partition that a later owner has fenced, nothing is
    written. All methods raise `UnavailableError` when PostgreSQL is unavailable.
    """

    async def fence(
        self, epochs: Mapping[int, int], *, now: datetime, held: Sequence[StartedTask] = ()
    ) -> frozenset[int]:
        """Takes partitions under these epochs, and returns those of which no later owner exists. What is in flight in
        them, except what this owner holds, waits again as the head of its lane, without having used up an attempt.
        Idempotent.
        """
        ...

    async def next_ready(self, queues: Sequence[str], partitions: Sequence[int]) -> Sequence[tuple[str, datetime]]:
        """For each queue that has waiting lanes in these partitions, when the first one is ready; soonest first."""
        ...

    async def start(
        self, queue: QueueVersion, epochs: Mapping[int, int], *, limit: int, most_bytes: int, now: datetime
    ) -> Sequence[StartedTask]:
        """Starts the heads of at most `limit` lanes, as far as the queue's cap and rate allow: one for each lane, none
        before it is due. In each partition those that are ready longest go first; one partition has at most about
        twice its even share. Nothing when the queue is paused or was changed. The data of all has at most
        `most_bytes`, or there is one task.
        """
        ...

    async def store(self, ended: Sequence[EndedAttempt], epochs: Mapping[int, int], *, now: datetime) -> int:
        """Stores what follows from ended attempts and frees their lanes; all or none. Returns how many were this
        owner's. The end of an older registration frees the lane and changes nothing else; that of an earlier start of
        the same task does nothing.
        """
        ...

    async def outdated(self, keys: Sequence[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Those of the tasks in flight that ended by hand or were registered again."""
        ...


class Receiver(Protocol):
    """A way to deliver tasks of one kind of target."""

    def room(self, queue: str) -> int:
        """How many more tasks of the queue can be delivered now; 0: tasks are staged."""
        ...

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        """Delivers a task and returns the end of the attempt. Errors of the receiver are `AttemptFailed`; when no
        receiver is left, `Interrupted`.
        """
        ...

    async def close(self) -> None:
        """Closes its connections, when no delivery is on its way. Idempotent."""
        ...


class StreamAddresses(Protocol):
    """Where workers reach the processes that deliver tasks. All methods raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    async def announce(self, owner: str, url: str) -> None:
        """Shows the address of an owner for 15 seconds. Idempotent."""
        ...

    async def withdraw(self, owner: str) -> None:
        """Removes the address of an owner. Idempotent."""
        ...

    async def all(self) -> Mapping[str, str]:
        """URL by owner, of those that were announced in the last 15 seconds."""
        ...

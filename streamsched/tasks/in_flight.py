"""The deliveries that this process holds, with the bounds on them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from streamsched.domain.tasks.attempt import AttemptEnd, StartedTask
from streamsched.store.tasks.delivery import DeliveryKey

_K = TypeVar("_K", str, int)

#: The most bytes of data that are held at a time.
MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class HeldDelivery:
    """A delivery from its start until its end is stored. `call`: the request on its way, None when it has ended."""

    task: StartedTask
    call: asyncio.Task[AttemptEnd] | None = None


class HeldDeliveries:
    """Bounded by number and bytes. One queue takes at most half of the places that the others leave, so a queue whose
    target hangs does not stop another.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._held: dict[DeliveryKey, HeldDelivery] = {}
        self._by_queue: Counter[str] = Counter()
        self._by_partition: Counter[int] = Counter()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[tuple[DeliveryKey, HeldDelivery]]:
        return iter(list(self._held.items()))

    def get(self, key: DeliveryKey) -> HeldDelivery | None:
        """The delivery, in flight or not yet stored; None when it is not held."""
        return self._held.get(key)

    def room(self, queue: str) -> int:
        """How many more deliveries of the queue may be held."""
        mine = self._by_queue[queue]
        others = len(self._held) - mine
        return min(self.capacity - len(self._held), max(1, (self.capacity - others) // 2) - mine)

    def of_queue(self, queue: str) -> int:
        """How many deliveries of the queue are held."""
        return self._by_queue[queue]

    @property
    def bytes_left(self) -> int:
        """How many more bytes of tasks may be held."""
        return MOST_BYTES - self._bytes

    def count(self, partition: int) -> int:
        """How many deliveries of the partition are held."""
        return self._by_partition[partition]

    def add(self, key: DeliveryKey, task: StartedTask) -> None:
        """Holds a delivery that is not held."""
        self._held[key] = HeldDelivery(task)
        self._by_queue[task.queue] += 1
        self._by_partition[task.partition] += 1
        self._bytes += len(task.data)

    def remove(self, key: DeliveryKey) -> None:
        """Forgets a delivery. Idempotent."""
        held = self._held.pop(key, None)
        if held is None:
            return
        self._bytes -= len(held.task.data)
        _decrement(self._by_queue, held.task.queue)
        _decrement(self._by_partition, held.task.partition)


def _decrement(counts: Counter[_K], name: _K) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]

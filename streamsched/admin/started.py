"""How far the numbers of each schedule's jobs have come: those that PostgreSQL has, and those on their way to it.

A job is known by schedule, generation and number, and one that comes twice is taken once. So a state that says a lower
number than this must not judge: what it starts next would be taken for a repeat of what it started before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from streamsched.codec import launch
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import ScheduleRef
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.records import records
from streamsched.ports.topics import LAUNCH

#: (schedule, generation) → the highest number a job of it has.
Started = Mapping[tuple[ScheduleRef, int], int]


class Numbers(Protocol):
    """What PostgreSQL has of them."""

    async def taken(self) -> Mapping[int, int]:
        """Up to which position each partition of `launch` is stored; 0 where it is missing.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def stored(self) -> Started:
        """Of the jobs it has or had.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...


async def started(broker: Broker, numbers: Numbers) -> Started:
    """All of them. A state that is read after this is not behind it, unless something was lost.

    Raises:
        UnavailableError: log or PostgreSQL are away.
    """
    found: dict[tuple[ScheduleRef, int], int] = {}
    taken = await numbers.taken()  # first: what is stored meanwhile is read twice, and nothing is missed
    for partition in range(await broker.partitions(LAUNCH)):
        async for record in records(broker, TopicPartition(LAUNCH, partition), start=taken.get(partition, 0)):
            with suppress(DecodeError):  # the intake makes no job of it either, and says so
                job = launch.peek(record.value or b"")
                _raise(found, (job.schedule, job.generation), job.sequence)
    for one, number in (await numbers.stored()).items():
        _raise(found, one, number)
    return found


def _raise(found: dict[tuple[ScheduleRef, int], int], one: tuple[ScheduleRef, int], number: int) -> None:
    found[one] = max(number, found.get(one, 0))

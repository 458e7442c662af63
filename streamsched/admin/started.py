"""The highest job number of each schedule, of jobs in PostgreSQL and of those still in the log.

Schedule, generation and number identify a job, and repeats are ignored. So a state with a lower number must not be
used: its next jobs would be ignored as repeats of earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from streamsched.codec.records import launch
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import ScheduleRef
from streamsched.log.records import records
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.store.server.probe import JobNumbers

#: (schedule, generation) → the highest number a job of it has.
Started = Mapping[tuple[ScheduleRef, int], int]


async def read_started(broker: Broker, numbers: JobNumbers) -> Started:
    """The highest numbers. A state that is read afterwards is never behind, unless data was lost.

    Raises:
        UnavailableError: the log or PostgreSQL is unreachable.
    """
    found: dict[tuple[ScheduleRef, int], int] = {}
    taken = await numbers.positions()  # first: jobs stored meanwhile are read twice, none is missed
    for partition in range(await broker.partitions(LAUNCH)):
        async for record in records(broker, TopicPartition(LAUNCH, partition), start=taken.get(partition, 0)):
            with suppress(DecodeError):  # the intake skips and logs it too
                job = launch.peek(record.value or b"")
                _raise(found, (job.schedule, job.generation), job.sequence)
    for key, number in (await numbers.read_highest()).items():
        _raise(found, key, number)
    return found


def _raise(found: dict[tuple[ScheduleRef, int], int], key: tuple[ScheduleRef, int], number: int) -> None:
    found[key] = max(number, found.get(key, 0))

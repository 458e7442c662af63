"""A job larger than a record of the log is compressed; any other is as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamsched_brokers.memory import MemoryBroker

from streamsched.codec.records import launch
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.domain.triggers.trigger import CustomEvent
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Capabilities
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, schedule

LARGEST = 1 << 20
BIG, SMALL = EventName("default", "big"), EventName("default", "small")


class NarrowBroker(MemoryBroker):
    """Says that it takes records of a mebibyte."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, largest_record=LARGEST)


def event(number: int, name: EventName, size: int) -> Event:
    return Event(f"{name.name}-{number}", "test", NOON, CustomHappened(name, {"x": "x" * size}))


async def test_only_a_job_larger_than_the_log_takes_is_compressed(cluster: ShardCluster) -> None:
    cluster.broker = NarrowBroker(cluster.broker._log)  # type: ignore[attr-defined]
    await cluster.start()
    for name in (BIG, SMALL):
        await cluster.put(schedule(name.name), CustomEvent(name, times=100))
    await cluster.settle()
    await cluster.emit(*(event(n, BIG, 25_000) for n in range(100)), *(event(n, SMALL, 10) for n in range(100)))
    await cluster.settle(60)

    jobs = {job.schedule and job.schedule.name: event_ids(job) for job in await cluster.jobs()}
    assert jobs == {name.name: [f"{name.name}-{n}" for n in range(100)] for name in (BIG, SMALL)}
    begins = {launch.peek(record.value or b"").schedule.name: record.value for record in await cluster.records(LAUNCH)}
    assert len(begins["big"] or b"") < LARGEST
    assert (begins["big"] or b"")[:1] == b"x"
    assert (begins["small"] or b"").startswith(b'{"v":1,')


async def test_a_damaged_record_is_refused() -> None:
    for raw, why in ((b"x", "not whole"), (b"xyz", "damaged"), (b"{\xff", "UTF-8")):
        with pytest.raises(DecodeError, match=why):
            launch.text_of(raw)

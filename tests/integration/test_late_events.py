"""Late events through real shards on the log in PostgreSQL, whose clock is the real one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.topics import LATE
from streamsched.ports.clock import SystemClock
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

pytestmark = pytest.mark.postgres

FLIGHTS = DatasetRef("default", "flights")


@pytest.mark.parametrize(
    ("then", "wanted", "aside"),
    [(OnLate.DROP, ["1", "3"], 0), (OnLate.SIDE_OUTPUT, ["1", "3"], 1), (OnLate.ACCEPT, ["1", "2"], 0)],
)
async def test_an_event_that_comes_too_late_is_dropped_put_aside_or_counted(
    cluster: ShardCluster, then: OnLate, wanted: list[str], aside: int
) -> None:
    await cluster.put(schedule(), Partitions(FLIGHTS, 2), late=Late(timedelta(hours=1), then))
    now = SystemClock().now()
    in_time, late = now - timedelta(minutes=50), now - timedelta(minutes=70)

    await cluster.emit(*(replace(landed(n), time=late if n == 2 else in_time) for n in (1, 2, 3)))
    await cluster.settle()

    assert [event_ids(job) for job in await cluster.jobs()] == [[f"flights-{n}" for n in wanted]]
    assert len(await cluster.records(LATE)) == aside

"""Load of clusters: one launcher asks, all know; gates do not flap, and one reading lets few start."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.domain.constraints.load import ClusterReading, Hysteresis, Load
from streamsched.domain.errors import UnavailableError
from streamsched.domain.schedules.overlap import Overlap
from streamsched.launcher.cluster_probes import ClusterProbes
from streamsched.launcher.why import explain_job
from streamsched.store.limits.clusters import ClusterStore

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

GATED = schedule("gated", constraints=(Load("main", free_cores=Hysteresis(8, 4)),), overlap=Overlap.QUEUE)


class Cluster:
    """`ports.cluster_probe.Probe` that says what it is given to."""

    def __init__(self, cores: float | None) -> None:
        self.cores = cores
        self.asked = 0

    async def read(self) -> ClusterReading:
        self.asked += 1
        if self.cores is None:
            raise UnavailableError("connection refused")
        return ClusterReading(self.cores)


def probes(world: World, cluster: Cluster) -> ClusterProbes:
    return ClusterProbes(ClusterStore(world.pool), {"main": cluster}, world.notifier, world.clock)


async def launched(world: World) -> int:
    await world.launcher.run_once()
    return list((await world.states()).values()).count("PENDING_LAUNCH")


async def test_a_job_waits_until_the_cluster_was_asked_and_then_starts_one_for_each_reading(world: World) -> None:
    cluster = Cluster(8)
    asks = probes(world, cluster)
    await world.define(GATED)
    assert await asks.run_once() == 0, "no job waits for it"
    await world.satisfy(*(world.ready(GATED, n) for n in (1, 2, 3)))
    assert await launched(world) == 0

    assert await asks.run_once() == 1
    assert await launched(world) == 1
    answer = await explain_job("default.app.gated.1.2", jobs=world.jobs, clock=world.clock)
    assert answer.summary == (
        "it waits: cluster main has 8 cores free (at 2026-03-01 12:00:00Z), but 1 run started on that; "
        "the next reading says whether there is still room"
    )
    assert answer.clauses[0].needs == "8 cores or more free (until fewer than 4) on cluster main"

    assert await asks.run_once() == 0, "the reading is fresh"
    for done in (2, 3):
        world.clock.advance(timedelta(seconds=5))
        assert await asks.run_once() == 1
        assert await launched(world) == done


async def test_one_of_many_launchers_asks_and_all_know(world: World) -> None:
    cluster = Cluster(9)
    await world.define(GATED)
    await world.satisfy(world.ready(GATED, 1))
    await launched(world)

    asked = await asyncio.gather(*(probes(world, cluster).run_once() for _ in range(4)))

    assert (sum(asked), cluster.asked) == (1, 1)
    [record] = await ClusterStore(world.pool).all()
    assert (record.reading, record.at, record.waiting) == (ClusterReading(9), world.clock.now(), 1)


async def test_while_it_is_unknown_a_job_waits_and_says_why(world: World) -> None:
    cluster = Cluster(None)
    asks = probes(world, cluster)
    known = schedule("gated", constraints=(Load("main", free_cores=Hysteresis(8, 8), wait=False),))
    await world.define(known)
    await world.satisfy(world.ready(known, 1))
    await launched(world)
    await asks.run_once()
    await launched(world)

    answer = await explain_job("default.app.gated.1.1", jobs=world.jobs, clock=world.clock)
    assert answer.summary == (
        "it waits: there is no reading of cluster main yet, "
        "its probe fails since 2026-03-01 12:00:00Z: connection refused"
    )

    cluster.cores = 4
    world.clock.advance(MINUTE)
    await asks.run_once()
    await world.check_jobs(world.clock.now())
    await launched(world)
    assert (await world.states())["gated.1.1"] == "ABORTED"


async def test_a_cluster_that_is_not_configured_and_a_probe_that_breaks_are_reasons_not_ends(world: World) -> None:
    class Broken(Cluster):
        async def read(self) -> ClusterReading:
            raise RuntimeError("nonsense")

    await world.define(GATED)
    await world.satisfy(world.ready(GATED, 1))
    await launched(world)
    said: list[str] = []
    for known in ({}, {"main": Broken(1)}):
        await ClusterProbes(ClusterStore(world.pool), known, world.notifier, world.clock).run_once()
        [record] = await ClusterStore(world.pool).all()
        said.append(record.failed or "")
        world.clock.advance(MINUTE)

    assert said == [
        "STREAMSCHED_CLUSTERS does not name it (known: none)",
        "its probe failed: RuntimeError: nonsense",
    ]


async def test_who_asks_for_no_load_touches_no_cluster(world: World) -> None:
    plain = schedule("plain")
    await world.define(plain)
    await world.satisfy(world.ready(plain, 1))
    await launched(world)

    assert await ClusterStore(world.pool).all() == []

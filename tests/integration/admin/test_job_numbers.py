"""No schedule goes back behind a job that it has started, whatever became of its shard's state: the number of a job is
what makes a repeat of it harmless, so one that is used twice would swallow a satisfaction."""

from __future__ import annotations

import pytest

from streamsched.admin import state
from streamsched.domain.signals.signal import Drop
from tests.integration.admin.site import Site, affinity, schedule, until

pytestmark = pytest.mark.postgres

X = schedule("x").ref


@pytest.mark.parametrize("stored", [True, False], ids=["in PostgreSQL", "still in the log"])
async def test_a_satisfaction_after_an_import_is_a_new_job_though_some_went_out_since_the_export(
    site: Site, stored: bool
) -> None:
    await until(lambda: site.counts("x", 0))
    await site.fire("x", 0)
    lines = [line async for line in state.export(site.at.broker)]
    await site.fire("x", 1)
    await site.fire("x", 2)
    if stored:
        await site.jobs()
    await site.stop()

    await restored(site, lines)
    await site.start()
    await site.fire("x", 3)

    assert await site.jobs() == [f"default.a.x.1.{number}" for number in (1, 2, 3, 4)]


async def test_an_import_into_an_empty_log_goes_on_from_the_jobs_that_postgresql_has(site: Site) -> None:
    await until(lambda: site.counts("x", 0))
    lines = [line async for line in state.export(site.at.broker)]
    await site.fire("x", 0)
    await site.jobs()
    await site.cluster.signal(Drop(X, 1), affinity=affinity("x"))
    await until(lambda: _unknown(site))
    await site.stop()

    await restored(site, lines)
    await site.start()
    await site.fire("x", 1)

    assert await site.jobs() == ["default.a.x.1.1", "default.a.x.1.2"]


async def test_an_import_leaves_alone_what_was_changed_since_the_export(site: Site) -> None:
    assert await site.faults() == []  # all three are known and listened for
    lines = [line async for line in state.export(site.at.broker)]
    await site.catalog.update(schedule("x", 2)).apply()
    assert await site.faults() == []
    await site.stop()

    await restored(site, lines)
    await site.start()

    assert await site.faults() == []


@pytest.mark.parametrize("stored", [True, False], ids=["in PostgreSQL", "still in the log"])
async def test_a_satisfaction_after_mending_is_a_new_job_though_the_shard_forgot_the_earlier_ones(
    site: Site, stored: bool
) -> None:
    await until(lambda: site.counts("x", 0))
    await site.fire("x", 0)
    await site.fire("x", 1)
    if stored:
        await site.jobs()
    await site.cluster.signal(Drop(X, 1), affinity=affinity("x"))

    assert await site.mend() == 1
    await until(lambda: site.counts("x", 0))
    await site.fire("x", 2)

    assert await site.jobs() == [f"default.a.x.1.{number}" for number in (1, 2, 3)]


async def test_a_shard_that_is_behind_its_own_jobs_is_found_and_reported(site: Site) -> None:
    await until(lambda: site.counts("x", 0))
    await site.fire("x", 0)
    await site.jobs()
    await site.pool.execute("UPDATE jobs SET sequence = 7, id = 'default.a.x.1.7'")

    assert await site.faults() == ["x: its shard has started 1 jobs of generation 1, but job number 7 exists"]
    assert await site.mend() == 1
    assert await site.faults() == []
    await site.fire("x", 1)

    assert await site.jobs() == ["default.a.x.1.7", "default.a.x.1.8"]


async def restored(site: Site, lines: list[bytes]) -> None:
    await site.restore(lines)
    assert await site.restore(lines) == 0


async def _unknown(site: Site) -> bool:
    return not any(b'default.a.x"' in line for line in [line async for line in state.export(site.at.broker)])

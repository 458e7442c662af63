"""What is stored while an expectation is being judged is not overlooked, whichever of the two is stored first."""

from __future__ import annotations

import asyncio

import pytest

from streamsched import App
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.store.expectations import evidence
from streamsched.store.expectations.evidence import Evidence
from tests.integration.expectations.expectation_world import HOUR, MINUTE, NOW, SECOND, ExpectationWorld

pytestmark = pytest.mark.postgres

DUE = NOW + 20 * HOUR


async def deployed(world: ExpectationWorld) -> None:
    """An expectation that is due, and nothing came up to then."""
    app = App("shop")
    app.expect("flights", by="08:00")
    await world.deploy(app)
    world.clock.set(DUE + MINUTE)
    await world.intake.copy_once(timeout=0)


async def test_evidence_that_is_stored_after_the_judgement_has_read_it_is_found(world: ExpectationWorld) -> None:
    await deployed(world)
    late = Evidence(SubjectKind.DATASET, "default.flights", b"x", DUE + SECOND, [])
    async with world.pool.acquire() as writer:
        writing = writer.transaction()
        await writing.start()
        await evidence.store_evidence(writer, SubjectKind.DATASET, [late])
        await world.watch().run_once()
        await writing.commit()
    await world.watch().run_once()
    (miss,) = await world.misses()
    assert miss.came_at == DUE + SECOND
    assert (await world.record()).state == "met"


async def test_evidence_that_waits_for_the_judgement_is_found(world: ExpectationWorld) -> None:
    await deployed(world)
    late = Evidence(SubjectKind.DATASET, "default.flights", b"x", DUE + SECOND, [])
    async with world.pool.acquire() as holder, world.pool.acquire() as writer:
        holding = holder.transaction()
        await holding.start()
        await holder.execute("SELECT FROM expectations FOR UPDATE")

        async def write() -> None:
            async with writer.transaction():
                await evidence.store_evidence(writer, SubjectKind.DATASET, [late])

        writing = asyncio.ensure_future(write())
        await asyncio.wait([writing], timeout=1.0)
        assert not writing.done()
        await holder.execute(
            "INSERT INTO expectation_misses SELECT id, due_at, starts, '', 'x', now(), true, true FROM expectations"
        )
        await holder.execute(
            "UPDATE expectations SET since = due_at, due_at = due_at + interval '1 day', open_misses = 1,"
            " starts = starts + interval '1 day', stirred = false"
        )
        await holding.commit()
        await writing
    await world.watch().run_once()
    (miss,) = await world.misses()
    assert miss.came_at == DUE + SECOND

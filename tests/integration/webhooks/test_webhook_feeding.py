"""Changes are put into the queues of webhooks once each and in order, whatever ends the feeder, and in whatever order
they commit.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streamsched.domain.errors import ConflictError, QuotaExceededError, UnavailableError
from streamsched.domain.jobs.job import JobState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.webhooks.webhook import MOST_QUEUED, Webhook
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.sql import queries
from streamsched.store.webhooks import webhooks
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from tests.integration.webhooks.webhook_world import SECRET, WebhookWorld

READ = queries("webhooks/work_history")["read"]
NOWHERE = "http://127.0.0.1:9/"


async def queued(world: WebhookWorld, webhook: str = "default.hook") -> list[str]:
    """Subjects in the queue, in the order of delivery within each lane."""
    rows = await world.pool.fetch(
        "SELECT convert_from(data, 'UTF8')::jsonb ->> 'subject' AS subject FROM tasks WHERE queue = $1 "
        "ORDER BY due_at, key",
        f"webhook.{webhook}",
    )
    return [row["subject"] for row in rows]


async def test_a_line_that_commits_after_a_later_one_is_not_passed_over(world: WebhookWorld) -> None:
    await world.webhook(NOWHERE)
    feeding = world.feeding()
    async with world.pool.acquire() as slow:
        late = slow.transaction()
        await late.start()
        await world.write(("default.a.late.1.1.r1", "run.started"), connection=slow)
        await world.write(("default.a.early.1.1.r1", "run.started"))
        for _ in range(3):
            await feeding.run_once()
        assert await queued(world) == [], "what commits first waits for the one with the lower number"
        await late.commit()
    await feeding.run_once()
    assert await queued(world) == ["default.a.late.1.1.r1", "default.a.early.1.1.r1"]


async def test_the_settled_number_grows_while_there_is_always_a_writer(world: WebhookWorld) -> None:
    history = PostgresWorkHistory(world.pool)
    async with world.pool.acquire() as first, world.pool.acquire() as second:  # released, they roll back
        writing = first.transaction()
        await writing.start()
        await world.write(("default.a.b.1.1.r1", "run.started"), connection=first)
        before = await history.settled_number()
        for connection in (second, first) * 3:
            following = connection.transaction()
            await following.start()
            await world.write(("default.a.b.1.1.r1", "run.started"), connection=connection)
            await writing.commit()
            writing = following
            found = await history.settled_number()
            assert found >= before
            before = found
        await writing.rollback()
    assert before > 0
    assert await history.settled_number() == await world.pool.fetchval("SELECT last_value FROM decisions_ids")


async def test_a_feeder_that_ends_between_queue_and_position_loses_and_doubles_nothing(
    world: WebhookWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.webhook(NOWHERE)
    await world.write(*((f"default.a.b.1.{n}.r1", "run.started") for n in range(3)))
    enqueue = webhooks.enqueue

    async def killed(*given: Any, **more: Any) -> None:
        await enqueue(*given, **more)
        raise UnavailableError("the process is killed")

    monkeypatch.setattr(webhooks, "enqueue", killed)
    with pytest.raises(UnavailableError):
        await world.feeding().run_once()
    assert await queued(world) == []
    monkeypatch.setattr(webhooks, "enqueue", enqueue)
    one, other = world.feeding(), world.feeding()
    await asyncio.gather(one.run_once(), other.run_once())
    assert await queued(world) == [f"default.a.b.1.{n}.r1" for n in range(3)]


async def test_order_holds_when_the_clock_goes_back(world: WebhookWorld) -> None:
    await world.webhook(NOWHERE)
    feeding = world.feeding()
    for n in range(4):
        await world.write((f"default.a.b.1.{n}.r1", "run.started"))
        await feeding.run_once()
        world.pass_time(seconds=-100)
    assert await queued(world) == [f"default.a.b.1.{n}.r1" for n in range(4)]


async def test_a_full_queue_waits_and_holds_up_no_other_webhook(world: WebhookWorld) -> None:
    await world.webhook(NOWHERE, "all")
    await world.webhook(NOWHERE, "few", schedules=frozenset({ScheduleRef.parse("default.a.none")}))
    await world.write(*((f"default.a.s{n % 7}.1.{n}.r1", "run.started") for n in range(MOST_QUEUED + 700)))
    feeding = world.feeding()
    while await feeding.run_once():
        pass
    full, few = await world.store.get("default.all"), await world.store.get("default.few")
    assert (full.queued, few.queued) == (MOST_QUEUED, 0)
    assert full.unread >= 700
    assert few.unread == 0
    await world.forget_tasks()
    while await feeding.run_once():
        pass
    assert (await world.store.get("default.all")).queued == 700


async def test_a_schedule_and_a_program_select_by_what_is_stored_of_the_run(world: WebhookWorld) -> None:
    await world.webhook(NOWHERE, schedules=frozenset({ScheduleRef.parse("default.a.s")}), changes=frozenset({"job.*"}))
    now = world.clock.now()
    await world.add_job("default.a.s.1.1", program="default.a.p", at=now, state=JobState.PENDING_CONSTRAINT)
    await world.write(("default.a.s.1.1", "job.admitted"), ("default.a.t.1.1", "job.admitted"))
    await world.feeding().run_once()
    assert await queued(world) == ["default.a.s.1.1"]


async def test_names_and_numbers_are_limited(world: WebhookWorld) -> None:
    await world.webhook(NOWHERE)
    with pytest.raises(ConflictError, match="already"):
        await world.webhook(NOWHERE)
    now = world.clock.now()
    for n in range(1, 100):
        made = Webhook(namespace=f"n{n % 5}", name=f"h{n:02}", url=NOWHERE)
        await world.store.create(made, secret=SECRET, by="test", now=now)
    one_more = Webhook(namespace="other", name="h", url=NOWHERE)
    with pytest.raises(ConflictError, match="100 webhooks"):
        await world.store.create(one_more, secret=SECRET, by="test", now=now)
    names = [each.webhook.name for each in await world.store.page("n0", after="h85", limit=3)]
    assert names == ["h90", "h95"]


async def test_a_namespace_leaves_webhooks_to_the_others(world: WebhookWorld) -> None:
    for n in range(20):
        await world.webhook(NOWHERE, f"h{n}", namespace="sales")
    with pytest.raises(QuotaExceededError, match="quota webhooks of namespace 'sales' is 20: 20 in use"):
        await world.webhook(NOWHERE, "more", namespace="sales")
    await world.webhook(NOWHERE, "first", namespace="sales2")
    await world.store.delete("sales.h3")
    await world.webhook(NOWHERE, "more", namespace="sales")
    quota = await QuotaStore(world.pool).set("sales", Quota.WEBHOOKS, 21, "", now=world.clock.now())
    assert quota.used == 20
    await world.webhook(NOWHERE, "another", namespace="sales")
    with pytest.raises(QuotaExceededError, match="is 21: 21 in use"):
        await world.webhook(NOWHERE, "last", namespace="sales")


async def test_the_history_is_read_by_its_index(world: WebhookWorld) -> None:
    await world.write(*((f"default.a.s.1.{n}.r1", "run.started") for n in range(20_000)))
    await world.pool.execute("ANALYZE decisions")
    rows = await world.pool.fetch("EXPLAIN " + READ, 19_900, 20_000, 50, True)
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan on work_decisions_rest" not in plan, plan
    assert "work_decisions_rest_id_idx" in plan, plan


@pytest.mark.long
async def test_a_hundred_thousand_changes_are_put_in_order(world: WebhookWorld) -> None:
    await world.webhook(NOWHERE, changes=frozenset({"run.*"}))
    number = 100_000
    for begin in range(0, number, 20_000):
        await world.write(*((f"default.a.s{n % 50}.1.{n}.r1", "run.completed") for n in range(begin, begin + 20_000)))
    feeding, seen = world.feeding(), list[str]()
    while len(seen) < number:
        while await feeding.run_once():
            pass
        found = await queued(world)
        assert 0 < len(found) <= MOST_QUEUED
        seen += found
        await world.forget_tasks()
    assert seen == [f"default.a.s{n % 50}.1.{n}.r1" for n in range(number)]

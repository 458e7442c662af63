"""Backfills: jobs over a span, so many at a time, each once, after all live work."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched.domain.backfills.backfill import (
    BackfillCounts,
    BackfillFact,
    BackfillOrder,
    BackfillState,
    ItemState,
    KnownOutcome,
    Only,
)
from streamsched.domain.backfills.key_values import parse_values
from streamsched.domain.backfills.request import BackfillRequest, KeySpan, PartitionSpan, Span, TickSpan
from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.events.event import Partition, PartitionsAdded
from streamsched.domain.jobs.job import JobCommand
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import Cron, CustomEvent, Partitions
from streamsched.launcher.backfill_feeding import BackfillFeeding
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.jobs.archive import Archive
from streamsched.store.jobs.backfill_feed import BackfillFeed
from streamsched.store.jobs.backfills import BackfillRecord, BackfillStore
from streamsched.store.jobs.submissions import SubmissionStore

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

DAILY = schedule("daily", trigger=Cron("0 6 * * *"), overlap=Overlap.QUEUE)
KEYED = schedule("keyed", trigger=Per(CustomEvent(EventName("default", "go")), ("date",)))
WEEK = TickSpan("2026-02-01", "2026-02-07")
DAYS = KeySpan({"date": parse_values("2026-02-01..2026-02-07", "$")})
PREFIX = "default.app.daily.backfill-b"


def request(owner: Schedule, span: Span, token: str = "b", **fields: Any) -> BackfillRequest:
    return BackfillRequest(owner.ref, token, span, **fields)


class Backfills:
    """The store, the feeding, and a launcher."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = BackfillStore(world.pool)
        self.feed = BackfillFeed(world.pool)
        self.feeding = BackfillFeeding(self.feed, world.notifier, world.clock, keep=timedelta(days=30))

    async def start(self, owner: Schedule, span: Span, token: str = "b", **fields: Any) -> BackfillRecord:
        found, _ = await self.store.start(request(owner, span, token, **fields), now=self.world.clock.now())
        return found

    async def step(self) -> None:
        """Feeds, and decides until there is nothing to do; a second later."""
        self.world.clock.advance(timedelta(seconds=1))
        await self.feeding.run_once()
        while await self.world.launcher.run_once():
            pass

    async def pending(self) -> list[str]:
        """The runs that wait for a runner, in the order of their admission."""
        return [run.id for run in sorted(await self.world.active(), key=lambda run: (run.created_at, run.id))]

    async def end(self, run: str, state: RunState = RunState.COMPLETED) -> None:
        world, now = self.world, self.world.clock.now()
        assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
        assert await world.run_store.finish(run, RunEnd(state, "", now, 0 if state is RunState.COMPLETED else 1))

    async def counts(self, token: str = "b", name: str = "daily") -> BackfillCounts:
        return (await self.store.get(f"default.app.{name}.backfill-{token}")).counts

    async def change(self, fact: BackfillFact, name: str = "daily") -> BackfillRecord:
        backfill = f"default.app.{name}.backfill-b"
        return await self.store.change(backfill, fact, "ann", now=self.world.clock.now())


@pytest.fixture
def backfills(world: World) -> Backfills:
    return Backfills(world)


async def test_each_tick_becomes_one_job_at_most_two_at_a_time_oldest_first(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=2, arguments={"b": "person"}, reason="ann")
    seen: list[str] = []
    for _ in range(20):
        await backfills.step()
        pending = await backfills.pending()
        assert len(pending) <= 2
        if not pending:
            break
        seen.append(pending[0])
        await backfills.end(pending[0])

    assert seen == [f"{PREFIX}.{number}.r1" for number in range(1, 8)]
    found = await backfills.store.get(PREFIX)
    assert (found.state, found.counts) == (BackfillState.COMPLETED, BackfillCounts(7, 0, succeeded=7))
    run = await world.runs.get(f"{PREFIX}.3.r1")
    assert run.arguments["trigger.logical_start_time"] == "2026-02-03T06:00:00+00:00"
    assert run.arguments["trigger.satisfied_at"] == "2026-02-03T06:00:00+00:00"
    assert run.arguments["logical.start.time"] == str(int(datetime(2026, 2, 3, 6, tzinfo=UTC).timestamp()) * 1000)
    assert (run.arguments["a"], run.arguments["b"]) == ("program", "person")
    explained = await explain_job(f"{PREFIX}.3", jobs=world.jobs, clock=world.clock)
    assert explained.satisfied_by[0] == f"a submission by hand, of backfill {PREFIX}: ann"
    assert await backfills.feed.feed(now=world.clock.now(), limit=10) is None
    lines = await world.actions(PREFIX)
    assert lines == ["backfill.started", "backfill.completed"]


async def test_the_newest_come_first_when_asked(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=2, order=BackfillOrder.NEWEST)
    await backfills.step()

    assert await backfills.pending() == [f"{PREFIX}.6.r1", f"{PREFIX}.7.r1"]
    plan = await backfills.store.plan(
        request(DAILY, WEEK, "p", order=BackfillOrder.NEWEST, only=Only.ALL), now=world.clock.now(), limit=2
    )
    assert [each.ready.id for each in plan.jobs] == ["default.app.daily.backfill-p.7", "default.app.daily.backfill-p.6"]


async def test_keys_travel_and_a_partition_comes_with_its_event(world: World, backfills: Backfills) -> None:
    flights = DatasetRef("default", "flights")
    weekly = schedule("weekly", trigger=Partitions(flights, 2))
    await world.define(KEYED, weekly)
    named = tuple(Partition(f"date={day}", {"date": day}) for day in ("2026-02-03", "2026-02-01", "2026-02-02"))

    await backfills.start(KEYED, DAYS, max_active=1)
    await backfills.start(weekly, PartitionSpan(flights, named), max_active=10)
    await backfills.step()

    run = await world.runs.get("default.app.keyed.backfill-b.1.r1")
    assert (run.arguments["date"], run.arguments["key.date"], run.arguments["trigger.key"]) == ("2026-02-01",) * 3
    partitions = []
    for number in (1, 2):
        found = await world.run_store.claim(
            f"default.app.weekly.backfill-b.{number}.r1", runner="h:1:1", log_path="/l", now=world.clock.now()
        )
        assert found is not None
        assert found.ready is not None
        (part,) = found.ready.contributions
        (event,) = part.events
        assert isinstance(event.fact, PartitionsAdded)
        partitions.append([each.key for each in event.fact.partitions])
    assert partitions == [["date=2026-02-01", "date=2026-02-02"], ["date=2026-02-03"]]


async def test_a_crash_at_any_moment_doubles_and_loses_nothing(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=3)
    for _ in range(40):
        now = world.clock.now()  # several feeders, as when a lease changes hands
        await asyncio.gather(*(BackfillFeed(world.pool).feed(now=now, limit=5) for _ in range(4)))
        while await world.launcher.run_once():
            pass
        for run in (await backfills.pending())[:1]:
            await backfills.end(run)

    assert [run.id for run in await world.stored_runs()] == [f"{PREFIX}.{number}.r1" for number in range(1, 8)]
    assert (await backfills.store.get(PREFIX)).state is BackfillState.COMPLETED


async def test_a_feeding_that_is_rolled_back_is_repeated(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=3)
    await world.refuse("true", change="UPDATE ON backfill_items", code="query_canceled")
    with pytest.raises(Exception, match="refused"):
        await backfills.step()
    assert await world.stored_jobs() == []
    await world.refuse_no_more("backfill_items")

    await backfills.step()

    assert len(await backfills.pending()) == 3


async def test_pause_holds_what_waits_and_resume_goes_on(world: World, backfills: Backfills) -> None:
    serial = replace(DAILY, constraints=(Concurrency(1, wait=True),))
    await world.define(serial)
    await backfills.start(serial, WEEK, max_active=3)
    await backfills.step()
    (first,) = await backfills.pending()

    paused = await backfills.change(BackfillFact.PAUSED)
    assert await backfills.change(BackfillFact.PAUSED) == paused
    await backfills.end(first)
    await backfills.step()

    assert await backfills.pending() == []
    counts = await backfills.counts()
    assert (counts.succeeded, counts.active, counts.waiting) == (1, 2, 4)
    held = await explain_job(f"{PREFIX}.2", jobs=world.jobs, clock=world.clock)
    assert held.summary == f"it is held until it is released: backfill {PREFIX} is paused"
    await world.jobs.command(f"{PREFIX}.3", JobCommand.HOLD, "bob", now=world.clock.now())
    assert (await backfills.change(BackfillFact.RESUMED)).state is BackfillState.RUNNING
    await backfills.step()
    assert await backfills.pending() == [f"{PREFIX}.2.r1"]
    await backfills.end(f"{PREFIX}.2.r1")
    await backfills.step()
    assert await backfills.pending() == [f"{PREFIX}.4.r1"], "job 3 is held by a person"


async def test_cancel_ends_what_waits_and_active_runs_go_on(world: World, backfills: Backfills) -> None:
    serial = replace(DAILY, constraints=(Concurrency(1, wait=True),))
    await world.define(serial)
    await backfills.start(serial, WEEK, max_active=3)
    await backfills.step()

    assert (await backfills.change(BackfillFact.CANCELLED)).state is BackfillState.CANCELLED
    await backfills.step()
    await backfills.end(f"{PREFIX}.1.r1", RunState.FAILED)
    await backfills.step()

    assert await backfills.counts() == BackfillCounts(7, 0, failed=1, dropped=2)
    states = [each.state for each in await backfills.store.jobs(PREFIX, limit=10)]
    assert states == [ItemState.FAILED, *[ItemState.DROPPED] * 2, *[ItemState.WAITING] * 4]
    assert await world.size("jobs") == 3
    with pytest.raises(ConflictError, match="is CANCELLED"):
        await backfills.change(BackfillFact.RESUMED)


async def test_only_missing_failed_or_all(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, TickSpan("2026-02-01", "2026-02-03"), "first", max_active=10)
    await backfills.step()
    one, two, three = await backfills.pending()
    await backfills.end(one)
    await backfills.end(two, RunState.FAILED)
    now = world.clock.now()

    async def known(**fields: Any) -> list[tuple[KnownOutcome, str]]:
        plan = await backfills.store.plan(request(DAILY, WEEK, "x", **fields), now=now, limit=9)
        assert plan.counts.items + plan.counts.skipped == 7
        return [(each.known, each.latest.rpartition(".")[2]) for each in plan.jobs]

    missing = (KnownOutcome.MISSING, "")
    everything = [(KnownOutcome.SUCCEEDED, "1"), (KnownOutcome.FAILED, "2"), (KnownOutcome.ACTIVE, "3"), *[missing] * 4]
    assert await known() == [missing] * 4
    assert await known(only=Only.FAILED) == [(KnownOutcome.FAILED, "2")]
    assert await known(only=Only.ALL) == everything
    await backfills.end(three, RunState.FAILED)
    world.clock.advance(timedelta(days=1))
    keeps = Retention(jobs=timedelta(days=30), audit=timedelta(days=30))
    assert await ArchiveLoop(Archive(world.pool), keeps, world.clock).run_once() == 3
    assert await known(only=Only.ALL) == [*everything[:2], (KnownOutcome.FAILED, "3"), *everything[3:]], (
        "from the history"
    )
    await backfills.step()
    assert await backfills.counts("first") == BackfillCounts(3, 0, succeeded=1, failed=2)

    again = await backfills.start(DAILY, TickSpan("2026-02-01", "2026-02-03"), "again", only=Only.FAILED)

    assert again.counts == BackfillCounts(2, 1)
    with pytest.raises(InvalidError, match=r"\$\.only: is missing: none of 3 jobs of the span is left"):
        await backfills.start(DAILY, TickSpan("2026-02-01", "2026-02-03"), "none")


async def test_a_tick_and_a_key_of_the_trigger_are_known_too(world: World, backfills: Backfills) -> None:
    await world.define(DAILY, KEYED)
    tick = (await backfills.store.plan(request(DAILY, WEEK), now=world.clock.now(), limit=1)).jobs[0].ready
    live = replace(world.ready(DAILY, 1), contributions=tick.contributions)
    keyed = replace(world.ready(KEYED, 1), key="2026-02-02")
    await world.satisfy(live, keyed)
    plan = await backfills.store.plan(request(DAILY, WEEK), now=world.clock.now(), limit=9)
    keys = await backfills.store.plan(request(KEYED, DAYS), now=world.clock.now(), limit=9)

    assert (plan.counts, plan.jobs[0].ready.logical_at.day) == (BackfillCounts(6, 1), 2)
    assert [each.ready.key[-1] for each in keys.jobs] == ["1", "3", "4", "5", "6", "7"]


async def test_mute_is_stored_with_every_job(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, TickSpan("2026-02-01", "2026-02-02"), muted=True)
    await backfills.step()
    await backfills.end(f"{PREFIX}.1.r1")

    assert [run.muted for run in await world.stored_runs()] == [True, True]
    assert await world.published("program-status") == []
    assert await world.history(action="run.muted")


async def test_a_repeat_finds_the_first_and_another_request_with_its_key_is_refused(
    world: World, backfills: Backfills
) -> None:
    await world.define(DAILY)
    now = world.clock.now()
    found = await asyncio.gather(*(backfills.store.start(request(DAILY, WEEK), now=now) for _ in range(5)))

    assert sum(not repeated for _, repeated in found) == 1
    assert await world.size("backfill_items") == 7
    with pytest.raises(ConflictError, match="belongs to another request"):
        await backfills.start(DAILY, WEEK, only=Only.ALL)
    assert [each.id for each in await backfills.store.list_recent(limit=5)] == [PREFIX]
    assert await backfills.store.list_recent(schedule=KEYED.ref, limit=5) == []


async def test_an_item_that_cannot_be_read_is_dropped_and_the_others_go_on(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=3)
    await world.pool.execute("UPDATE backfill_items SET ready = '[]' WHERE number = 2")

    await backfills.step()

    assert await backfills.pending() == [f"{PREFIX}.1.r1", f"{PREFIX}.3.r1"]
    assert await backfills.counts() == BackfillCounts(7, 0, active=2, dropped=1)


async def test_what_ended_is_forgotten_after_its_time(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK)
    await backfills.start(DAILY, WEEK, "other")
    await backfills.change(BackfillFact.CANCELLED)
    world.clock.advance(timedelta(days=31))

    await backfills.feeding.run_once()

    assert [each.id for each in await backfills.store.list_recent(limit=5)] == ["default.app.daily.backfill-other"]
    assert await world.size("backfill_items") == 7
    with pytest.raises(NotFoundError):
        await backfills.store.jobs(PREFIX, limit=1)


async def test_a_rerun_of_its_job_is_about_the_same_tick_and_no_longer_of_the_backfill(
    world: World, backfills: Backfills
) -> None:
    from streamsched.domain.schedules.submission_request import RerunRequest

    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=1)
    await backfills.step()
    await backfills.end(f"{PREFIX}.1.r1", RunState.FAILED)

    store = SubmissionStore(world.pool)
    made = await store.rerun(RerunRequest(f"{PREFIX}.1"), now=world.clock.now())
    await backfills.step()

    run = await world.runs.get(f"{made.job}.r1")
    assert run.arguments["trigger.logical_start_time"] == "2026-02-01T06:00:00+00:00"
    assert (await world.job(made.job)).backfill is None


async def test_more_jobs_than_one_confirms_are_refused_with_their_number(world: World, backfills: Backfills) -> None:
    minutely = replace(DAILY, trigger=Cron("* * * * *"))
    await world.define(minutely)
    span = TickSpan("2026-02-01T00:00Z", "2026-02-07T22:40Z")

    with pytest.raises(InvalidError, match=r"would make 10001 jobs, more than 10000"):
        await backfills.start(minutely, span)
    assert await world.size("backfills") == 0
    found = await backfills.start(minutely, span, confirmed=True)

    assert found.counts.items == 10_001
    assert await world.size("backfill_items") == 10_001

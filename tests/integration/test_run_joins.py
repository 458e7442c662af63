"""Fork and join on a whole scheduler: `a` starts `b` and `c`, and `d` waits for both, for each run of `a`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsched import App, TriggerExpression, event, program, retry
from streamsched.api.open_keys import key_views
from streamsched.catalog.progress import ProgressCopy
from streamsched.codec.schedules.schedule import schedule_to_json, submitted_schedule_from_json
from streamsched.domain.access.sight import Sees
from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.events.ancestors import job_digest, program_digest
from streamsched.domain.events.event import CustomHappened, Event, Outcome, ProgramReached
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.submission_request import RerunRequest, SubmissionRequest
from streamsched.domain.triggers.trigger import AllOf
from streamsched.store.catalog.progress import OpenKeyReader, PostgresProgress
from streamsched.store.jobs.descendants import DescendantReader
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, Run, open_scheduler
from streamsched.wire.schedules import ScheduleLosses

pytestmark = pytest.mark.postgres

D = ScheduleRef("default", "shop", "d")
HOUR = timedelta(hours=1)


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def fork(*, mixed: bool = False, **policies: dict[str, Any]) -> App:
    """`a` by an event, `b` and `c` after it, `d` after both. `policies` by schedule."""
    app = App("shop")
    for name in "abcd":
        app.bash(name, "true")
    both = program("b") & program("c")
    whens = {"a": event("go"), "b": program("a"), "c": program("a"), "d": both.mixed_runs() if mixed else both}
    for name, when in whens.items():
        app.schedule(name, name, when=when, **{"overlap": "queue", **policies.get(name, {})})
    return app


async def go(scheduler: InProcessScheduler, number: int) -> None:
    """A run of `a` begins."""
    await scheduler.emit(Event(f"go{number}", "test", MONDAY, CustomHappened(EventName("default", "go"))))


def running(scheduler: InProcessScheduler, name: str) -> Run:
    """The oldest run of the program that goes on."""
    return next(run for run in scheduler.active.values() if run.program == name)


def begun(scheduler: InProcessScheduler, name: str = "d") -> list[Run]:
    """All runs of the program that have begun."""
    return [run for run in scheduler.runs if run.program == name]


async def waiting_for(scheduler: InProcessScheduler, sees: Sees = lambda _: True) -> dict[str, list[str]]:
    """Key → what `schedule keys` says that it waits for."""
    copy = ProgressCopy(broker=scheduler.cluster.broker, store=PostgresProgress(scheduler.pool))
    while await copy.run_once(timeout=0.01):
        pass
    await copy.close()
    record = (await scheduler.catalog.reader.schedule(D)).record
    keys = await OpenKeyReader(scheduler.pool).page(D, after="", limit=100)
    views = await key_views(record, keys, DescendantReader(scheduler.pool), sees)
    return {each["runOf"]["job"] or each["key"]: [one["text"] for one in each["missing"]] for each in views}


async def end(scheduler: InProcessScheduler, name: str, state: RunState = RunState.COMPLETED) -> Run:
    """The oldest run of the program ends."""
    run = running(scheduler, name)
    await scheduler.end(run, state)
    return run


async def test_the_fault_as_measured(scheduler: InProcessScheduler) -> None:
    """Run 1: b fails, c succeeds. Run 2: b is quick, c slow. `d` started with the `c` of run 1."""
    await scheduler.deploy(fork())
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "b", RunState.FAILED)
    await end(scheduler, "c")
    await go(scheduler, 2)
    await end(scheduler, "a")
    await end(scheduler, "b")

    assert begun(scheduler) == []
    await end(scheduler, "c")
    assert [run.events for run in begun(scheduler)] == [
        ("default.shop.b.1.2.r1:COMPLETED", "default.shop.c.1.2.r1:COMPLETED")
    ]
    assert begun(scheduler)[0].arguments["trigger.key"] == job_digest("default.shop.a.1.2")


async def test_mixed_runs_keeps_the_old_meaning(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork(mixed=True))
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "b", RunState.FAILED)
    await end(scheduler, "c")
    await go(scheduler, 2)
    await end(scheduler, "a")
    await end(scheduler, "b")

    assert [run.events for run in begun(scheduler)] == [
        ("default.shop.b.1.2.r1:COMPLETED", "default.shop.c.1.1.r1:COMPLETED")
    ]


async def test_a_failed_run_is_named_and_a_rerun_of_it_completes_the_join(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork())
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "c")
    assert await waiting_for(scheduler) == {
        "default.shop.a.1.1": ["default.shop.b is RUNNING in run default.shop.b.1.1.r1"]
    }
    await end(scheduler, "b", RunState.FAILED)
    assert await waiting_for(scheduler) == {
        "default.shop.a.1.1": [
            "default.shop.b failed in run default.shop.b.1.1.r1: as the test wants; a rerun of it completes this key"
        ]
    }
    await rerun(scheduler, "default.shop.b.1.1")
    assert await waiting_for(scheduler) == {
        "default.shop.a.1.1": ["default.shop.b is RUNNING in run default.shop.b.1.1.rerun-1.r1"]
    }
    await end(scheduler, "b")

    assert [run.events for run in begun(scheduler)] == [
        ("default.shop.b.1.1.rerun-1.r1:COMPLETED", "default.shop.c.1.1.r1:COMPLETED")
    ]
    assert await waiting_for(scheduler) == {}


async def test_a_retried_run_is_of_the_same_job(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork(b={"retry": retry(2, delay="1m")}))
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "c")
    await end(scheduler, "b", RunState.FAILED)
    assert await waiting_for(scheduler) == {
        "default.shop.a.1.1": ["default.shop.b is PENDING in run default.shop.b.1.1.r2"]
    }
    await scheduler.advance(timedelta(minutes=2))
    await end(scheduler, "b")
    assert [run.events for run in begun(scheduler)] == [
        ("default.shop.b.1.1.r2:COMPLETED", "default.shop.c.1.1.r1:COMPLETED")
    ]


async def test_runs_of_a_that_are_coalesced_before_b_but_not_before_c(scheduler: InProcessScheduler) -> None:
    """One `b` for two runs of `a` counts for each of them; `d` runs once for each."""
    await scheduler.deploy(fork(b={"overlap": "coalesce", "constraints": [Delay(HOUR)]}))
    for number in (1, 2):
        await go(scheduler, number)
        await end(scheduler, "a")
    await end(scheduler, "c")
    assert (await waiting_for(scheduler))["default.shop.a.1.1"] == [
        "default.shop.b waits in job default.shop.b.1.1: " + (await reason(scheduler, "default.shop.b.1.1"))
    ]
    await end(scheduler, "c")
    assert (await waiting_for(scheduler))["default.shop.a.1.2"] == [
        "default.shop.b waits in job default.shop.b.1.1, which default.shop.b.1.2 joined"
    ]
    await scheduler.advance(HOUR)
    assert [run.id for run in begun(scheduler, "b")] == ["default.shop.b.1.1.r1"]
    await end(scheduler, "b")

    assert [run.events for run in begun(scheduler)] == [
        ("default.shop.b.1.1.r1:COMPLETED", "default.shop.c.1.1.r1:COMPLETED"),
        ("default.shop.b.1.1.r1:COMPLETED", "default.shop.c.1.2.r1:COMPLETED"),
    ]
    keys = [run.arguments["trigger.key"] for run in begun(scheduler)]
    assert keys == [job_digest("default.shop.a.1.1"), job_digest("default.shop.a.1.2")]


async def test_a_run_by_hand_counts_under_no_key_and_says_so(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork())
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "c")
    await end(scheduler, "b", RunState.FAILED)
    for request in (ScheduleRef("default", "shop", "b"), ProgramRef("default", "shop", "b")):
        await submit(scheduler, request)
        await end(scheduler, "b")
    await start(scheduler, "b")
    await end(scheduler, "b")

    assert begun(scheduler) == []
    assert list(await waiting_for(scheduler)) == ["default.shop.a.1.1"]


async def test_d_by_hand_has_no_key(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork())
    await submit(scheduler, D)
    assert "trigger.key" not in begun(scheduler)[0].arguments


async def test_a_run_of_a_by_hand_begins_a_key_of_its_own(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork())
    await start(scheduler, "a")
    await end(scheduler, "a")
    await end(scheduler, "b")
    assert list(await waiting_for(scheduler)) == ["default.shop.a.manual-x.r1"]
    await end(scheduler, "c")
    assert len(begun(scheduler)) == 1


async def test_a_skipped_job_is_named(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork(b={"overlap": "skip"}))
    for number in (1, 2):
        await go(scheduler, number)
        await end(scheduler, "a")
    await end(scheduler, "c")
    await end(scheduler, "c")
    await end(scheduler, "b")

    assert [run.events[1] for run in begun(scheduler)] == ["default.shop.c.1.1.r1:COMPLETED"]
    why = await reason(scheduler, "default.shop.b.1.2")
    assert await waiting_for(scheduler) == {
        "default.shop.a.1.2": [f"default.shop.b did not run: job default.shop.b.1.2 is ABORTED: {why}"]
    }


async def test_a_job_that_a_constraint_ended_is_named(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork(b={"constraints": [Concurrency(1, wait=False)]}))
    for number in (1, 2):
        await go(scheduler, number)
        await end(scheduler, "a")
    await end(scheduler, "c")
    await end(scheduler, "c")
    texts = await waiting_for(scheduler)
    assert texts["default.shop.a.1.1"] == ["default.shop.b is RUNNING in run default.shop.b.1.1.r1"]
    assert "did not run: job default.shop.b.1.2 is ABORTED" in texts["default.shop.a.1.2"][0]


async def test_a_rerun_of_a_takes_the_place_of_its_first_run(scheduler: InProcessScheduler) -> None:
    """`b` of the first run failed, `c` counts. What the rerun leads to joins: not the `c` of before."""
    await scheduler.deploy(fork())
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "c")
    await end(scheduler, "b", RunState.FAILED)
    await rerun(scheduler, "default.shop.a.1.1")
    await end(scheduler, "a")
    await end(scheduler, "b")
    assert begun(scheduler) == []
    assert await waiting_for(scheduler) == {
        "default.shop.a.1.1": ["default.shop.c is RUNNING in run default.shop.c.1.2.r1"]
    }
    await rerun(scheduler, "default.shop.b.1.1")  # of the first run of `a`: too late
    await end(scheduler, "b")
    assert begun(scheduler) == []
    await end(scheduler, "c")

    assert [run.events for run in begun(scheduler)] == [
        ("default.shop.b.1.2.r1:COMPLETED", "default.shop.c.1.2.r1:COMPLETED")
    ]
    assert await waiting_for(scheduler) == {}


async def test_who_may_not_view_a_namespace_sees_no_names_of_it(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork())
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "c")
    await end(scheduler, "b", RunState.FAILED)
    assert await waiting_for(scheduler, lambda _: False) == {
        job_digest("default.shop.a.1.1"): ["default.shop.b has not ended as wanted"]
    }


def other(**whens: TriggerExpression) -> App:
    """Another app, which joins the programs of `shop` through a program of its own."""
    app = App("other")
    after = {"m": program("default.shop.b"), "j": program("m") & program("default.shop.c"), **whens}
    for name in after:
        app.bash(name, "true")
    for name, when in after.items():
        app.schedule(name, name, when=when)
    return app


async def test_deployments_of_other_apps_change_no_join_and_say_what_they_break(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(fork())
    before = (await scheduler.catalog.reader.schedule(D)).record
    await scheduler.deploy(other())
    joined = (await scheduler.catalog.reader.schedule(ScheduleRef("default", "other", "j"))).record
    assert str(joined.definition.trigger).endswith("for each run of default.shop.a")
    await scheduler.deploy(other(x=program("default.shop.a"), j=event("go")))
    assert (await scheduler.catalog.reader.schedule(D)).record == before
    assert not (await scheduler.catalog.deploy(fork().definition()).preview()).differs

    await scheduler.deploy(other())
    app = fork()
    app.schedule("c2", "c", when=event("also"))
    preview = await scheduler.catalog.deploy(app.definition()).preview()
    assert preview.broken_joins == ()  # some runs of `c` still descend from `a`
    assert [each.join for each in preview.schedules if each.schedule == D] == [
        "counts ends of different runs together: default.shop.c also starts without default.shop.a; `per_run_of` "
        "counts only the runs that descend from it"
    ]
    moved = await scheduler.catalog.deploy(replace_trigger(fork(), "c", event("also"))).preview()
    assert [str(each.schedule) for each in moved.broken_joins] == ["default.other.j"]


def replace_trigger(app: App, name: str, when: TriggerExpression) -> AppDefinition:
    definition = app.definition()
    changed = (
        replace(each, trigger=when.build(app.ref)) if each.ref.name == name else each for each in definition.schedules
    )
    return replace(definition, schedules=tuple(changed))


async def test_a_thousand_and_one_runs_of_a_are_too_many(scheduler: InProcessScheduler) -> None:
    """They are coalesced before `b`. It says so, and `e`, which joins per run of `b`, goes on."""
    app = fork(b={"overlap": "coalesce", "constraints": [Delay(HOUR)]}, c={"enabled": False})
    for name, when in {"e": program("b"), "f": program("b"), "g": program("e") & program("f")}.items():
        app.bash(name, "true")
        app.schedule(name, name, when=when)
    await scheduler.deploy(app)
    ref = ProgramRef("default", "shop", "a")
    for part in range(0, 1001, 200):
        await scheduler.emit(
            *(
                Event(f"a{number}", "test", MONDAY, ProgramReached(ref, f"a{number}", Outcome.SUCCEEDED))
                for number in range(part, min(part + 200, 1001))
            )
        )
    await scheduler.advance(HOUR)
    await end(scheduler, "b")
    stored = await scheduler.pool.fetchval("SELECT ancestors FROM jobs WHERE id = 'default.shop.b.1.1'")
    assert stored == {"jobs": {program_digest(ref): []}}
    assert (await waiting_for(scheduler)) == {}
    status = await scheduler.catalog.reader.schedule(D)
    assert status.losses == ScheduleLosses(
        expired_keys=0, dropped_keys=0, refused_events=1, keyless_events=0, keyless_why=""
    )
    await end(scheduler, "e")
    await end(scheduler, "f")
    assert [run.arguments["trigger.key"] for run in begun(scheduler, "g")] == [job_digest("default.shop.b.1.1")]


async def test_the_json_of_cdap_keeps_the_meaning_of_its_and(scheduler: InProcessScheduler) -> None:
    """As everything that is created and not deployed: no ancestor is chosen."""
    await scheduler.deploy(fork())
    written = schedule_to_json((await scheduler.catalog.reader.schedule(D)).record.definition)
    plain = {**written, "name": "e", "trigger": written["trigger"]["trigger"]}
    created = await scheduler.catalog.create(submitted_schedule_from_json(plain).schedule, enabled=True).apply()
    assert isinstance(created.change.schedules[0].after.definition.trigger, AllOf)
    await scheduler.rest()
    await go(scheduler, 1)
    await end(scheduler, "a")
    await end(scheduler, "b", RunState.FAILED)
    await end(scheduler, "c")
    await go(scheduler, 2)
    await end(scheduler, "a")
    await end(scheduler, "b")
    assert [run.schedule for run in begun(scheduler)] == ["e"]


async def rerun(scheduler: InProcessScheduler, job: str) -> None:
    await SubmissionStore(scheduler.pool).rerun(RerunRequest(job), now=scheduler.clock.now())
    await scheduler.rest()


async def submit(scheduler: InProcessScheduler, owner: ScheduleRef | ProgramRef) -> None:
    await SubmissionStore(scheduler.pool).submit(
        SubmissionRequest(owner, type(owner).__name__), now=scheduler.clock.now()
    )
    await scheduler.rest()


async def reason(scheduler: InProcessScheduler, job: str) -> str:
    return str(await scheduler.pool.fetchval("SELECT reason FROM jobs WHERE id = $1", job))


async def start(scheduler: InProcessScheduler, name: str) -> None:
    """A person starts the program alone."""
    ref, now = ProgramRef("default", "shop", name), scheduler.clock.now()
    await scheduler.by_hand.start(ref, {}, token="x", at_most=None, force=False, now=now)
    await scheduler.rest()

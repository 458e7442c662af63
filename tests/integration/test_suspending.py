"""The ways of suspending a schedule, on a whole scheduler with a settable clock: what starts, what counts, what waits,
what times out, and what is said about it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from streamsched import App, partitions
from streamsched.domain.errors import ConflictError
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.launcher.why import explain_job
from streamsched.launcher.whynot import explain_no_run
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, open_scheduler

pytestmark = pytest.mark.postgres

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REF = ScheduleRef("default", "app", "s")
DRAIN, BACKLOG = Pause(PauseMode.DRAIN, note="upgrade"), Pause(PauseMode.BACKLOG, note="the cluster is away")


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def some(count: int, first: int = 0) -> list[Event]:
    feed = DatasetRef("default", "feed")
    return [
        Event(f"p{n}", "test", MONDAY, PartitionsAdded(feed, (Partition(f"n={n}"),), 1))
        for n in range(first, first + count)
    ]


def app_of(wanted: int = 1, **policies: object) -> App:
    app = App("app")
    app.bash("load", "true")
    app.schedule("s", "load", when=partitions("feed", wanted), **policies)  # type: ignore[arg-type]
    return app


async def pause(scheduler: InProcessScheduler, wanted: Pause) -> None:
    await scheduler.catalog.pause(REF, wanted).apply()
    await scheduler.rest()


async def resume(scheduler: InProcessScheduler) -> None:
    await scheduler.catalog.enable(REF).apply()
    await scheduler.rest()


def started(scheduler: InProcessScheduler) -> list[tuple[str, ...]]:
    return [run.events for run in scheduler.runs]


async def summary(scheduler: InProcessScheduler, job: str) -> tuple[str, str | None]:
    found = await explain_job(job, jobs=scheduler.jobs, clock=scheduler.clock)
    return found.summary, found.timeout


async def test_drain_lets_what_waits_run_and_counts_nothing_new(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(2, max_concurrent=1, overlap="queue"))
    await scheduler.emit(*some(5))
    assert started(scheduler) == [("p0", "p1")]

    await pause(scheduler, DRAIN)
    await scheduler.emit(*some(3, 5))
    await scheduler.end_all()

    assert started(scheduler) == [("p0", "p1"), ("p2", "p3")]
    status = await scheduler.catalog.reader.schedule(REF)
    assert (status.record.status, status.record.state_text.partition(":")[0]) == ("paused", "paused (draining")
    span = await scheduler.jobs.span(REF, since=scheduler.clock.now() - HOUR, until=scheduler.clock.now())
    text = explain_no_run(status, span, since=scheduler.clock.now() - HOUR, until=scheduler.clock.now()).summary
    assert (
        "it was paused since 2026-03-02 12:00:00Z (draining: waiting jobs may run, events do not count) (upgrade)"
        in text
    )

    await resume(scheduler)
    await scheduler.emit(*some(1, 9))
    assert started(scheduler)[2:] == [("p4", "p9")], (
        "what was accumulated before stays; what came meanwhile did not count"
    )


async def test_drain_goes_on_with_jobs_that_a_pause_held(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(max_concurrent=1, overlap="queue"))
    await scheduler.emit(*some(3))
    await pause(scheduler, Pause())
    await scheduler.end_all()
    assert len(scheduler.runs) == 1

    await pause(scheduler, DRAIN)
    await scheduler.end_all()

    assert started(scheduler) == [("p0",), ("p1",), ("p2",)]


async def test_a_draining_schedule_takes_no_submission(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of())
    await pause(scheduler, DRAIN)

    with pytest.raises(ConflictError, match="is draining, so it takes no new jobs"):
        await SubmissionStore(scheduler.pool).submit(SubmissionRequest(REF, "token"), now=scheduler.clock.now())


@pytest.mark.parametrize("overlap", ["coalesce", "queue", "latest", "skip", "cancel_running", "kill_running"])
async def test_a_backlog_is_one_job_for_each_satisfaction_whatever_the_overlap(
    scheduler: InProcessScheduler, overlap: str
) -> None:
    await scheduler.deploy(app_of(max_concurrent=1, overlap=overlap))
    await pause(scheduler, BACKLOG)
    for n in range(4):
        await scheduler.emit(*some(1, n))
    assert scheduler.runs == []
    assert (await scheduler.catalog.reader.schedule(REF)).waiting_jobs == 4
    text, _ = await summary(scheduler, "default.app.s.2.1")
    assert text.startswith(
        "it waits until its schedule is resumed; it is paused since 2026-03-02 12:00:00Z: the cluster is away"
    )
    assert "collecting a backlog" in text

    await resume(scheduler)
    await scheduler.end_all()

    assert started(scheduler) == [(f"p{n}",) for n in range(4)]
    await scheduler.emit(*some(1, 4))
    assert started(scheduler)[4:] == [("p4",)]


async def test_a_backlog_after_disabling_and_across_an_update(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(max_concurrent=1))
    await scheduler.catalog.disable(REF).apply()
    await pause(scheduler, BACKLOG)
    await scheduler.emit(*some(1))
    await scheduler.deploy(app_of(max_concurrent=1, description="kept", on_change="keep"))
    await scheduler.emit(*some(1, 1))
    assert scheduler.runs == []

    await resume(scheduler)
    await scheduler.end_all()

    assert started(scheduler) == [("p0",), ("p1",)]


async def test_an_update_that_resets_ends_the_backlog_and_begins_another(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of())
    await pause(scheduler, BACKLOG)
    await scheduler.emit(*some(1))
    await scheduler.catalog.update(app_of(description="anew").definition().schedules[0], keep=False).apply()
    await scheduler.emit(*some(1, 1))
    await resume(scheduler)
    await scheduler.end_all()

    assert started(scheduler) == [("p1",)]
    assert list((await scheduler.job_states()).values()) == ["OBSOLETE", "LAUNCHED"]


async def test_a_backlog_may_be_drained_and_survives_a_failover(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(max_concurrent=1))
    await pause(scheduler, BACKLOG)
    await scheduler.emit(*some(2))
    await scheduler.fail_over(MINUTE)
    await scheduler.emit(*some(1, 2))

    await pause(scheduler, DRAIN)
    await scheduler.emit(*some(1, 3))
    await scheduler.end_all()

    assert started(scheduler) == [("p0",), ("p1",), ("p2",)]


@pytest.mark.parametrize("mode", [PauseMode.KEEP, PauseMode.BACKLOG])
@pytest.mark.parametrize("on_timeout", ["discard", "launch"])
async def test_the_timeout_of_a_held_job_begins_again_at_the_resumption(
    scheduler: InProcessScheduler, mode: PauseMode, on_timeout: str
) -> None:
    await scheduler.deploy(app_of(max_concurrent=1, overlap="queue", timeout="1h", on_timeout=on_timeout))
    await scheduler.emit(*some(2))
    (first,) = scheduler.active.values()
    waiting = "default.app.s.1.2"
    await scheduler.advance(30 * MINUTE)
    await pause(scheduler, Pause(mode))
    await scheduler.advance(5 * HOUR)
    assert (await scheduler.job_states())[waiting] == "PENDING_CONSTRAINT", "it does not run out while it is held"
    _, text = await summary(scheduler, waiting)
    assert text is not None
    assert text.startswith("when it still waits 1:00:00 after its schedule was resumed, ")

    await resume(scheduler)
    resumed_at = scheduler.clock.now()
    assert (await scheduler.catalog.reader.schedule(REF)).record.resumed_at == resumed_at
    await scheduler.advance(59 * MINUTE)
    assert (await scheduler.job_states())[waiting] == "PENDING_CONSTRAINT"
    _, text = await summary(scheduler, waiting)
    assert text is not None
    assert f"at {resumed_at + HOUR:%Y-%m-%d %H:%M:%S}Z (1:00:00 after its schedule was resumed)" in text

    await scheduler.advance(MINUTE)
    await scheduler.rest()
    state = (await scheduler.job_states())[waiting]
    assert state == ("TIMED_OUT" if on_timeout == "discard" else "LAUNCHED")
    assert first.id in scheduler.active


async def test_a_draining_job_times_out_as_an_enabled_one(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(max_concurrent=1, overlap="queue", timeout="1h"))
    await scheduler.emit(*some(2))
    await pause(scheduler, DRAIN)

    await scheduler.advance(HOUR)

    assert (await scheduler.job_states())["default.app.s.1.2"] == "TIMED_OUT"

"""An hour of a day whose job is made is written again: the day's program runs again and is told so, as what follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from streamsched import App, partitions, program, rerun_after
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, Run, open_scheduler

pytestmark = pytest.mark.postgres

HOURS = [f"2026-03-01T{hour:02d}" for hour in range(24)]
OTHER = "2026-03-02T00"


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def written(name: str, *hours: str) -> Event:
    named = tuple(Partition(f"hour={hour}", {"hour": hour}) for hour in hours)
    return Event(name, "test", MONDAY, PartitionsAdded(DatasetRef("default", "clicks"), named, len(named)))


def daily(**options: object) -> App:
    app = App("app")
    total, mail = app.bash("total", "true"), app.bash("mail", "true")
    app.schedule("daily", total, when=partitions("clicks").per("hour", **options).rolled_up_to("day"))  # type: ignore[arg-type]
    app.schedule("mailed", mail, when=program(total).per("day", on_correction="rerun"))
    return app


def of(scheduler: InProcessScheduler, name: str) -> list[Run]:
    return [run for run in scheduler.runs if run.program == name]


async def test_a_corrected_day_runs_again_once_it_is_quiet_and_so_does_what_follows(
    scheduler: InProcessScheduler,
) -> None:
    await scheduler.deploy(daily())
    await scheduler.emit(written("whole", *HOURS), written("other", OTHER))
    await scheduler.end_all()
    assert (len(of(scheduler, "total")), len(of(scheduler, "mail"))) == (1, 1)

    for number, hour in enumerate(HOURS[3:6]):
        await scheduler.emit(written(f"again-{number}", hour))
        await scheduler.advance(timedelta(minutes=9))
    assert len(of(scheduler, "total")) == 1, "it is not quiet yet"
    await scheduler.advance(timedelta(minutes=2))
    await scheduler.end_all()

    first, second = (run.arguments for run in of(scheduler, "total"))
    assert "trigger.corrects" not in first
    assert second["trigger.corrects"] == first["trigger.job"]
    assert second["trigger.corrected"] == ", ".join(f"hour={hour}" for hour in HOURS[3:6])
    assert (first["day"], second["day"]) == ("2026-03-01", "2026-03-01")
    one, other = (run.arguments for run in of(scheduler, "mail"))
    assert other["trigger.corrects"] == one["trigger.job"]


async def test_a_part_written_while_the_run_works_is_a_correction_that_waits_for_it(
    scheduler: InProcessScheduler,
) -> None:
    await scheduler.deploy(daily(on_correction="rerun"))
    await scheduler.emit(written("whole", *HOURS))
    (run,) = of(scheduler, "total")
    await scheduler.emit(written("again", HOURS[7]))
    assert of(scheduler, "total") == [run], "one run of a day at a time"
    assert sorted((await scheduler.job_states()).values()) == ["LAUNCHED", "PENDING_CONSTRAINT"]

    await scheduler.end(run)
    await scheduler.end_all()
    assert [each.arguments.get("trigger.corrected") for each in of(scheduler, "total")] == [None, f"hour={HOURS[7]}"]


@pytest.mark.parametrize("said", ["ignore", "reopen", rerun_after("30d")])
async def test_other_policies_make_no_job(scheduler: InProcessScheduler, said: object) -> None:
    await scheduler.deploy(daily(on_correction=said))
    await scheduler.emit(written("whole", *HOURS))
    await scheduler.end_all()
    await scheduler.emit(written("again", HOURS[7]))
    await scheduler.end_all()

    assert len(of(scheduler, "total")) == 1

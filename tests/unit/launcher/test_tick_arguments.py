"""What a run is given of the tick that started it: the day, where the schedule's clock hangs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.events.event import Event, Ticked
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import arguments, day_of_tick
from streamsched.domain.schedules.provenance import ArgumentSource, argument_sources
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.schedules.template import fill_template
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    CustomEvent,
    Every,
    SinceLastRun,
    TickingLeaf,
    Trigger,
    leaf_id,
)

REF = ScheduleRef("default", "a", "s")
PROGRAM = Program(ProgramRef("default", "a", "p"), BashJob("true"))
MIDNIGHT = datetime(2026, 3, 28, 23, tzinfo=UTC)  # 00:00 of the 29th in Berlin, the day on which clocks are put forward


def tick(leaf: TickingLeaf, due_at: datetime, *missed: datetime) -> Event:
    return Event(f"tick:{due_at}", "t", due_at, Ticked(REF, 1, leaf_id(leaf), due_at, None, missed))


def ready(*events: Event, key: str = "", submission: Submission | None = None) -> ReadyJob:
    return ReadyJob(REF, 1, 1, MIDNIGHT, (Contribution("leaf", len(events), events),), key=key, submission=submission)


def schedule(trigger: Trigger, **properties: str) -> Schedule:
    return Schedule(REF, PROGRAM.ref, trigger, properties=properties)


@pytest.mark.parametrize(
    ("leaf", "day"),
    [
        (Cron("0 0 * * *", "Europe/Berlin"), "2026-03-29"),
        (Cron("0 0 * * *"), "2026-03-28"),
        (Cron("0 0 * * *", "America/New_York"), "2026-03-28"),
        (Cron("TZ=Europe/Berlin 0 0 0 * * *", dialect=Dialect.DAPR), "2026-03-29"),
        (Every(timedelta(days=1)), "2026-03-28"),
        (At(MIDNIGHT), "2026-03-28"),
        (SinceLastRun(timedelta(days=1)), "2026-03-28"),
    ],
)
def test_runs_of_ticks_have_their_day_in_the_zone_of_the_trigger(leaf: TickingLeaf, day: str) -> None:
    found = arguments(PROGRAM, schedule(leaf), ready(tick(leaf, MIDNIGHT)))

    assert (found["day"], found["trigger.day"]) == (day, day)
    assert fill_template("--day {day}", found) == f"--day {day}"
    assert argument_sources({"day": day}, PROGRAM, {}, schedule(leaf), ready(tick(leaf, MIDNIGHT))) == {
        "day": ArgumentSource.TRIGGER
    }


def test_of_several_ticks_the_newest_counts_and_a_run_without_one_has_no_day() -> None:
    berlin, plain = Cron("0 0 * * *", "Europe/Berlin"), Cron("0 0 * * *")
    yesterday = MIDNIGHT - timedelta(days=1)

    both = ready(tick(plain, yesterday), tick(berlin, MIDNIGHT, yesterday))

    assert day_of_tick(berlin & plain, both) == "2026-03-29"
    assert day_of_tick(plain, both) == "2026-03-28", "a leaf that the trigger no longer has: UTC"
    assert "day" not in arguments(PROGRAM, schedule(plain), ready())
    assert "trigger.day" not in arguments(PROGRAM, schedule(plain), ready())


def test_whatever_a_person_says_goes_before_it() -> None:
    leaf = Cron("0 0 * * *", "Europe/Berlin")
    mine = Program(PROGRAM.ref, BashJob("true"), {"day": "default"})
    by_key = Per(CustomEvent(EventName("default", "landed")), ("day",)) & leaf
    submission = Submission("job", "ann", {"day": "asked"})

    def day(program: Program, made: Schedule, job: ReadyJob) -> str:
        found = arguments(program, made, job)
        assert found["trigger.day"] == "2026-03-29"
        return found["day"]

    event = tick(leaf, MIDNIGHT)
    assert day(mine, schedule(leaf), ready(event)) == "default"
    assert day(PROGRAM, schedule(leaf, day="property"), ready(event)) == "property"
    assert day(PROGRAM, schedule(by_key), ready(event, key="monday")) == "monday"
    assert day(mine, schedule(leaf, day="property"), ready(event, submission=submission)) == "asked"

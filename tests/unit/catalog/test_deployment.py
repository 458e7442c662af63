"""What a deployment changes, over whatever stood before."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.catalog.change import create, disable, update
from streamsched.catalog.deployment import deploy
from streamsched.domain.constraints.constraint import Delay
from streamsched.domain.errors import InvalidDefinitionError, NotFoundError
from streamsched.domain.events.lateness import Late
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.catchup import CatchUp
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import PauseAfter
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import BashJob, Misfire, OnTimeout, Program, Schedule
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Cron, Every, Partitions, Per, ProgramStatus, Within
from streamsched.store.catalog.records import Action, AppChange, AppRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)
APP = AppRef("default", "a")
DAY = timedelta(days=1)

programs = st.sets(st.sampled_from(["p", "q", "r"]), min_size=1).flatmap(
    lambda names: st.tuples(
        *(
            st.builds(
                Program,
                st.just(ProgramRef("default", "a", name)),
                st.builds(BashJob, st.sampled_from(["true", "false"])),
            )
            for name in sorted(names)
        )
    )
)


@st.composite
def definitions(draw: st.DrawFn) -> AppDefinition:
    known = draw(programs)
    names = draw(st.sets(st.sampled_from(["s", "t", "u", "v"])))
    schedules = tuple(
        Schedule(
            ScheduleRef("default", "a", name),
            draw(st.sampled_from(known)).ref,
            Partitions(DatasetRef("default", draw(st.sampled_from(["x", "y"]))), draw(st.integers(1, 2))),
        )
        for name in sorted(names)
    )
    return AppDefinition(APP, known, schedules, frozenset(names & draw(st.sets(st.sampled_from(["s", "t"])))))


def after(app: AppRecord, change: AppChange) -> AppRecord:
    """The app as the store would have it then."""
    known = dict(app.programs)
    for program in change.programs:
        if program.action is Action.DELETED:
            del known[program.program.ref]
        else:
            known[program.program.ref] = program.program
    schedules = dict(app.schedules)
    for schedule in change.schedules:
        assert schedule.before == schedules.get(schedule.after.definition.ref)
        assert schedule.after.generation == (schedule.before.generation if schedule.before else 0) + 1
        schedules[schedule.after.definition.ref] = schedule.after
    return AppRecord(app.ref, known, schedules)


def deployed(*wanted: AppDefinition) -> AppRecord:
    app = AppRecord(APP, {}, {})
    for each in wanted:
        app = after(app, deploy(app, each, update_schedules=True, now=NOW))
    return app


def current(app: AppRecord) -> dict[ScheduleRef, Schedule]:
    return {ref: record.definition for ref, record in app.schedules.items() if record.exists}


@given(definitions(), definitions())
def test_what_stands_afterwards_is_what_was_wanted_whatever_stood_before(
    before: AppDefinition, wanted: AppDefinition
) -> None:
    app = deployed(before, wanted)

    assert current(app) == {schedule.ref: schedule for schedule in wanted.schedules}
    assert app.programs == {program.ref: program for program in wanted.programs}


@given(definitions(), definitions())
def test_deploying_again_changes_nothing(before: AppDefinition, wanted: AppDefinition) -> None:
    app = deployed(before, wanted)

    assert deploy(app, wanted, update_schedules=True, now=NOW) == AppChange()


@given(definitions(), definitions())
def test_equal_schedules_are_not_touched_and_changed_ones_stay_as_they_were_switched(
    before: AppDefinition, wanted: AppDefinition
) -> None:
    app = deployed(before)
    change = deploy(app, wanted, update_schedules=True, now=NOW)

    for each in change.schedules:
        if each.action is Action.UPDATED:
            assert each.before is not None
            assert each.before.definition != each.after.definition
            assert each.before.enabled == each.after.enabled
        if each.action is Action.CREATED:
            assert each.after.enabled == (each.after.definition.ref.name in wanted.enabled)
    equal = {s.ref for s in before.schedules} & {s.ref for s in wanted.schedules if current(app).get(s.ref) == s}
    assert equal.isdisjoint(each.after.definition.ref for each in change.schedules)


@given(definitions(), definitions())
def test_leaving_schedules_alone_only_takes_those_whose_program_went(
    before: AppDefinition, wanted: AppDefinition
) -> None:
    app = deployed(before)
    kept = {program.ref for program in wanted.programs}

    change = deploy(app, wanted, update_schedules=False, now=NOW)

    assert {each.action for each in change.schedules} <= {Action.DELETED}
    assert current(after(app, change)) == {s.ref: s for s in before.schedules if s.program in kept}


def test_a_disabled_schedule_stays_disabled_though_the_deployment_names_it_enabled() -> None:
    program = Program(ProgramRef("default", "a", "p"), BashJob("true"))
    schedule = Schedule(ScheduleRef("default", "a", "s"), program.ref, Every(interval=NOW - NOW.replace(year=2025)))
    wanted = AppDefinition(APP, (program,), (schedule,), frozenset({"s"}))
    app = deployed(wanted)
    app = after(app, disable(app, schedule.ref, now=NOW))

    app = after(
        app,
        deploy(app, replace(wanted, schedules=(replace(schedule, description="new"),)), update_schedules=True, now=NOW),
    )

    assert not app.schedules[schedule.ref].enabled
    assert app.schedules[schedule.ref].generation == 3


def test_a_trigger_that_waits_for_a_program_the_app_does_not_have_is_refused() -> None:
    program = Program(ProgramRef("default", "a", "p"), BashJob("true"))
    app = deployed(AppDefinition(APP, (program,), ()))
    waits = Schedule(ScheduleRef("default", "a", "s"), program.ref, ProgramStatus(ProgramRef("default", "a", "typo")))
    elsewhere = replace(waits, trigger=ProgramStatus(ProgramRef("default", "other", "later")))

    with pytest.raises(NotFoundError, match="typo"):
        create(app, waits, enabled=False, now=NOW)
    assert create(app, elsewhere, enabled=False, now=NOW).schedules


def test_a_cron_that_never_matches_is_refused_though_no_codec_saw_it() -> None:
    app = deployed(AppDefinition(APP, (Program(ProgramRef("default", "a", "p"), BashJob("true")),), ()))
    never = Schedule(ScheduleRef("default", "a", "s"), ProgramRef("default", "a", "p"), Cron("0 0 31 2 *"))

    with pytest.raises(InvalidDefinitionError):
        create(app, never, enabled=False, now=NOW)


@pytest.mark.parametrize(("said", "keeps"), [(None, True), (True, True), (False, False)])
def test_a_file_deployed_again_that_now_counts_a_partition_once_keeps_what_has_come(
    said: bool | None, keeps: bool
) -> None:
    lines = DatasetRef("default", "x")
    program = Program(ProgramRef("default", "a", "p"), BashJob("true"))
    before = Schedule(ScheduleRef("default", "a", "s"), program.ref, Within(Partitions(lines, 2, distinct=False), DAY))
    once = replace(before, trigger=Within(Partitions(lines, 2), DAY))
    app = deployed(AppDefinition(APP, (program,), (before,), frozenset({"s"})))

    (changed,) = deploy(
        app, AppDefinition(APP, (program,), (once,)), update_schedules=True, keep=said, now=NOW
    ).schedules
    assert (changed.action, changed.keeps) == (Action.UPDATED, keeps)

    more = replace(before, trigger=Within(Partitions(lines, 3), DAY))
    (changed,) = deploy(app, AppDefinition(APP, (program,), (more,)), update_schedules=True, now=NOW).schedules
    assert not changed.keeps, "another amount is a change as any other"


#: For each field of a definition another value than the default, and whether the change keeps what has accumulated.
OTHER_VALUES = {
    "program": (ProgramRef("default", "a", "q"), False),
    "trigger": (Partitions(DatasetRef("default", "x"), 3), False),
    "consumption": (Consumption.PAIRED, False),
    "late": (Late(DAY), False),
    "constraints": ((Delay(DAY),), True),
    "properties": ({"day": "1"}, True),
    "description": ("new", True),
    "overlap": (Overlap.QUEUE, True),
    "misfire": (Misfire.SKIP, True),
    "timeout": (DAY, True),
    "on_timeout": (OnTimeout.LAUNCH, True),
    "retry": (Retry(3), True),
    "max_duration": (DAY, True),
    "catch_up": (CatchUp(DAY), True),
    "deadlines": ((Deadline(DeadlineKind.START, DAY),), True),
    "pause_after": (PauseAfter(3), True),
}


@pytest.mark.parametrize("name", [field.name for field in fields(Schedule) if field.init and field.name != "ref"])
def test_a_change_that_does_not_touch_what_counts_keeps_what_has_accumulated(name: str) -> None:
    both = tuple(Program(ProgramRef("default", "a", each), BashJob("true")) for each in "pq")
    before = Schedule(ScheduleRef("default", "a", "s"), both[0].ref, Partitions(DatasetRef("default", "x"), 2))
    app = deployed(AppDefinition(APP, both, (before,), frozenset({"s"})))
    value, keeps = OTHER_VALUES[name]
    changed = replace(before, **{name: value})
    wanted = AppDefinition(APP, both, (changed,))

    for said, kept in ((None, keeps), (True, True), (False, False)):
        (by_file,) = deploy(app, wanted, update_schedules=True, keep=said, now=NOW).schedules
        (alone,) = update(app, changed, keep=said, now=NOW).schedules
        assert (by_file.keeps, alone.keeps) == (kept, kept)


@pytest.mark.parametrize(
    ("before", "after_", "keeps"),
    [
        (None, Grain.DAY, True),
        (Grain.DAY, None, True),
        (None, Grain.MONTH, False),
    ],
)
def test_a_file_deployed_again_whose_keys_now_are_periods_keeps_what_has_come(
    before: Grain | None, after_: Grain | None, keeps: bool
) -> None:
    lines, program = DatasetRef("default", "x"), Program(ProgramRef("default", "a", "p"), BashJob("true"))
    old = Schedule(ScheduleRef("default", "a", "s"), program.ref, Per(Partitions(lines, 2), ("date",), before))
    new = replace(old, trigger=Per(Partitions(lines, 2), ("date",), after_))
    app = deployed(AppDefinition(APP, (program,), (old,), frozenset({"s"})))

    (changed,) = deploy(app, AppDefinition(APP, (program,), (new,)), update_schedules=True, now=NOW).schedules

    assert (changed.action, changed.keeps) == (Action.UPDATED, keeps)

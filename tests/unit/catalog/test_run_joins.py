"""What a deployment says and stores about an `&` of programs, and the joins that it breaks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from streamsched import App, TriggerExpression, cron, event, partitions, program
from streamsched.catalog.deployment import deploy, remove_app, remove_program
from streamsched.catalog.preview import foresee
from streamsched.codec.schedules.schedule import schedule_from_json, schedule_to_json
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.triggers.trigger import AllOf, Per, run_of
from streamsched.store.catalog.records import Action, AppChange, AppRecord, ProgramLink

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = AppRef("default", "shop")
BOTH = program("b") & program("c")


def shop(joined: TriggerExpression = BOTH, **whens: TriggerExpression) -> AppDefinition:
    """`a` at four o'clock, `b` and `c` after it, `d` after both; others by their names."""
    app = App("shop")
    starts = {"a": cron("0 4 * * *"), "b": program("a"), "c": program("a"), "d": joined, **whens}
    for name in starts:
        if "_" not in name:
            app.bash(name, "true")
    for name, when in starts.items():
        app.schedule(name, name.partition("_")[0], when=when)
    return app.definition()


def stored(wanted: AppDefinition, *links: ProgramLink) -> AppRecord:
    """The app after its deployment."""
    change = deploy(AppRecord(SHOP, {}, {}, links=links), wanted, update_schedules=True, now=NOW)
    records = {each.after.definition.ref: each.after for each in change.schedules}
    return AppRecord(wanted.ref, {each.ref: each for each in wanted.programs}, records, links=links)


def again(app: AppRecord, wanted: AppDefinition) -> AppChange:
    return deploy(app, wanted, update_schedules=True, now=NOW)


def ref(name: str) -> ScheduleRef:
    return ScheduleRef("default", "shop", name)


def ancestor(app: AppRecord, name: str = "d") -> ProgramRef | None:
    return run_of(app.schedules[ref(name)].definition.trigger)


def test_the_nearest_common_ancestor_is_stored_and_the_plan_says_so() -> None:
    change = again(AppRecord(SHOP, {}, {}), shop())
    preview = foresee(change, {})
    assert {each.schedule.name: each.join for each in preview.schedules} == {
        "a": "",
        "b": "",
        "c": "",
        "d": "joins per run of default.shop.a; `mixed_runs()` would count all together",
    }
    app = stored(shop())
    assert ancestor(app) == ProgramRef("default", "shop", "a")
    definition = app.schedules[ref("d")].definition
    assert str(definition.trigger) == (
        "(default.shop.b succeeded and default.shop.c succeeded) for each run of default.shop.a"
    )
    assert schedule_from_json(schedule_to_json(definition)) == definition


def test_a_second_deployment_of_the_same_file_changes_nothing() -> None:
    assert again(stored(shop()), shop()) == AppChange()
    said = shop(BOTH.mixed_runs())
    assert again(stored(said), said) == AppChange()
    explicit = shop(BOTH.per_run_of("a"))
    assert again(stored(shop()), explicit) == AppChange()


@pytest.mark.parametrize(
    ("joined", "whens", "text"),
    [
        (BOTH.mixed_runs(), {}, "`mixed_runs()` says so"),
        (BOTH & partitions("x"), {}, "it is no `&` of programs alone"),
        (BOTH & cron("0 5 * * *"), {}, "it is no `&` of programs alone"),
        (BOTH | event("go"), {}, "it is no `&` of programs alone"),
        (program("b") & program("c", times=2), {}, "it waits for 2 runs of default.shop.c"),
        (
            BOTH,
            {"x": event("go"), "b": program("a") & program("x"), "c": program("x") & program("a")},
            "they have several ancestors, such as default.shop.a and default.shop.x; `per_run_of` chooses one",
        ),
        (BOTH, {"c": event("go")}, "they have no common ancestor"),
        (
            BOTH,
            {"c_too": event("go")},
            "default.shop.c also starts without default.shop.a; `per_run_of` counts only the runs that descend from it",
        ),
        (
            BOTH,
            {"b": program("other.x.y"), "c": program("other.x.y")},
            "their ancestor other.x.y is of another namespace; `per_run_of` joins per run of it",
        ),
    ],
)
def test_why_ends_of_different_runs_count_together(
    joined: TriggerExpression, whens: dict[str, TriggerExpression], text: str
) -> None:
    change = again(AppRecord(SHOP, {}, {}), shop(joined, **whens))
    assert change.joins[ref("d")] == f"counts ends of different runs together: {text}"
    after = next(each.after for each in change.schedules if each.after.definition.ref == ref("d"))
    assert run_of(after.definition.trigger) is None


@pytest.mark.parametrize("joined", [program("b") | program("c"), program("b"), BOTH.per("day"), partitions("x")])
def test_what_joins_no_programs_has_nothing_to_say(joined: TriggerExpression) -> None:
    assert again(AppRecord(SHOP, {}, {}), shop(joined)).joins == {}


def test_a_join_with_a_time_limit_counts_per_run_too() -> None:
    assert ancestor(stored(shop(BOTH.within("2h", then="fire")))) == ProgramRef("default", "shop", "a")


def test_the_ancestor_may_be_reached_through_another_app() -> None:
    """`m` of app `other` is after `a`, and `c` after `m`."""
    link = ProgramLink(
        ScheduleRef("default", "other", "m"),
        ProgramRef("default", "other", "m"),
        program("default.shop.a").build(SHOP),
    )
    wanted = shop(c=program("default.other.m"))
    assert ancestor(stored(wanted, link)) == ProgramRef("default", "shop", "a")
    assert ancestor(stored(wanted)) is None


def test_to_say_that_runs_are_mixed_keeps_what_has_accumulated() -> None:
    plain = {each.ref: each for each in shop(BOTH.mixed_runs()).schedules}[ref("d")]
    assert isinstance(plain.trigger, AllOf)
    before = stored(shop())
    old = ScheduleRecord(
        replace(plain, trigger=AllOf(plain.trigger.triggers)),
        3,
        enabled=True,
        created_at=NOW,
        updated_at=NOW,
    )
    app = AppRecord(SHOP, before.programs, {**before.schedules, ref("d"): old})
    (change,) = again(app, shop(BOTH.mixed_runs())).schedules
    assert (change.action, change.keeps) == (Action.UPDATED, True)


def test_what_was_stored_before_keeps_its_meaning_until_its_file_is_deployed() -> None:
    plain = shop(BOTH.mixed_runs())
    before = stored(plain)
    assert deploy(before, shop(), update_schedules=False, now=NOW).schedules == ()
    (change,) = again(before, shop()).schedules
    assert isinstance(change.after.definition.trigger, Per)


def test_a_deployment_names_the_joins_that_it_breaks() -> None:
    """`c` is started by an event from now on; `d` of another app joins per run of `a`."""
    theirs = ProgramLink(
        ScheduleRef("default", "other", "d"),
        ProgramRef("default", "other", "d"),
        (program("b") & program("c")).per_run_of("a").build(SHOP),
    )
    app = stored(shop(program("b")), theirs)
    assert again(app, shop(program("b"))).broken_joins == ()
    change = again(app, shop(program("b"), c=event("go")))
    assert [str(each.schedule) for each in change.broken_joins] == ["default.other.d"]
    assert [each.text for each in change.broken_joins] == [
        "joins per run of default.shop.a, which leads no more to default.shop.c: its runs would not count"
    ]
    removed = remove_program(app, ProgramRef("default", "shop", "b"), now=NOW)
    assert [str(each.program) for each in removed.broken_joins] == ["default.shop.b"]
    assert len(remove_app(app, now=NOW).broken_joins) == 2


def test_a_join_per_run_of_a_program_that_leads_nowhere_is_named_at_once() -> None:
    change = again(AppRecord(SHOP, {}, {}), shop(BOTH.per_run_of("b")))
    assert [str(each.program) for each in change.broken_joins] == ["default.shop.c"]
    again_change = again(stored(shop(BOTH.per_run_of("b"))), shop(BOTH.per_run_of("b"), e=event("go")))
    assert again_change.broken_joins == ()


def test_the_ancestor_of_an_app_must_be_one_of_its_programs() -> None:
    with pytest.raises(InvalidDefinitionError, match="waits for unknown program 'z'"):
        shop(BOTH.per_run_of("z"))


def test_only_an_and_may_say_that_it_mixes_runs() -> None:
    with pytest.raises(InvalidDefinitionError, match="must be an `&`"):
        shop((program("b") | program("c")).mixed_runs())

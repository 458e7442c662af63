"""What a key of a roll-up lacks: the hours of a day in any zone, beside a set; and where it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import state as state_codec
from streamsched.codec.views import explanation
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold.explain import explain, explain_cell
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import Period, period
from streamsched.domain.triggers.completeness import KeyCompleteness, completeness, key_writes
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keys.known_set import KnownSet
from streamsched.domain.triggers.trigger import Partitions, leaf_id
from streamsched.testing.examples import examples
from tests.support.engine import Engine

CLICKS = DatasetRef("default", "clicks")
NOW = datetime(2026, 3, 29, tzinfo=UTC)
REF = ScheduleRef("default", "app", "daily")


def daily(zone: str = "UTC", of: int | None = None) -> Per:
    return Per(Partitions(CLICKS), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY, of=of, zone=zone)


def commit(*hours: str) -> Event:
    rows = tuple(Partition(f"hour={each}", {"hour": each}) for each in hours)
    return Event("e" + "".join(hours), "test", NOW, PartitionsAdded(CLICKS, rows, len(rows)))


@examples(200)
@given(
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    st.sampled_from(["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-07-01"]),
    st.data(),
)
def test_missing_hours_are_those_of_the_clock_that_have_not_come(zone: str, day: str, data: st.DataObject) -> None:
    whole = period(day, Grain.DAY, zone)
    assert isinstance(whole, Period)
    hours = [part.key for part in whole.parts(Grain.HOUR)]
    came = data.draw(st.sets(st.sampled_from(hours)))

    found = completeness(daily(zone), day, [commit(each) for each in sorted(came)])

    assert found is not None
    assert (set(found.expected), found.present) == (set(hours), came)
    assert found.missing_parts == tuple(each for each in hours if each not in came)
    named = [
        hours[place] for first, last in found.spans() for place in range(hours.index(first), hours.index(last) + 1)
    ]
    assert tuple(named) == found.missing_parts
    assert (str(found) == "") == (not found.missing_parts)


@pytest.mark.parametrize(
    ("present", "text"),
    [
        ({0, 1, 2, 3}, ""),
        ({0, 1, 2}, "h3"),
        (set(), "h0 to h3"),
        ({1, 2}, "h0 and h3"),
        ({1}, "h0 and h2 to h3"),
    ],
)
def test_what_is_missing_as_text(present: set[int], text: str) -> None:
    assert str(KeyCompleteness(tuple(f"h{n}" for n in range(4)), frozenset(f"h{n}" for n in present))) == text
    many = KeyCompleteness(tuple(f"h{n}" for n in range(20)), frozenset(f"h{n}" for n in range(1, 20, 2)))
    assert str(many) == "h0, h2, h4, h6, h8 and 5 more spans"


def test_without_a_roll_up_nothing_says_what_belongs_to_a_key() -> None:
    assert completeness(Per(Partitions(CLICKS), ("day",), Grain.DAY), "2026-03-29", []) is None
    assert completeness(daily(), "no day", []) is None


def test_an_open_key_says_which_hours_are_missing_and_a_schedule_how_many_each_key_needs() -> None:
    engine = Engine(REF)
    engine.tell(NOW, Put(REF, 1, True, daily("Europe/Berlin")))
    hours = [f"2026-03-29T{hour:02d}" for hour in range(24) if hour not in (2, 5, 6)]  # 02:00 is skipped there
    engine.tell(NOW, Occurred(commit(*hours)))
    assert engine.state is not None

    (key,) = engine.cells
    view = explanation.to_json(explain_cell(engine.state.plan, engine.cells[key], key))
    leaf = view["children"][0] if "children" in view else view
    assert (leaf["have"], leaf["need"]) == (21, 23)
    assert leaf["missing_periods"] == [["2026-03-29T05", "2026-03-29T06"]]
    assert leaf["missing_text"] == "2026-03-29T05 to 2026-03-29T06"
    unopened = explanation.to_json(explain(engine.state))
    assert (unopened["children"][0] if "children" in unopened else unopened)["need"] == 24


def test_a_run_of_a_day_that_is_not_whole_is_given_what_is_missing() -> None:
    schedule = Schedule(REF, ProgramRef("default", "app", "total"), daily(of=22))
    program = Program(schedule.program, BashJob("true"))
    came = commit(*(f"2026-03-29T{hour:02d}" for hour in range(22)))
    leaf = leaf_id(Partitions(CLICKS))

    def given_to(*events: Event) -> str | None:
        job = ReadyJob(REF, 1, 1, NOW, (Contribution(leaf, 22, events),), "2026-03-29")
        return arguments(program, schedule, job).get("trigger.missing")

    assert given_to(came) == "default.clicks: 2026-03-29T22 to 2026-03-29T23"
    assert given_to(came, commit("2026-03-29T22", "2026-03-29T23")) is None


def test_a_year_of_hours_costs_little() -> None:
    year = Per(Partitions(CLICKS), ("hour",), Grain.HOUR, rolled_up_to=Grain.YEAR)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [(start + timedelta(hours=n)).strftime("%Y-%m-%dT%H") for n in range(0, 8760, 2)]
    found = completeness(year, "2026", [commit(*hours)])
    assert found is not None
    assert len(found.missing_parts) == 4380
    assert str(found).endswith("4375 more spans")


HOURS = [f"{day}T{hour:02}" for day in ("2026-07-01", "2026-07-02") for hour in (0, 7, 23)]


@examples(100)
@given(st.lists(st.tuples(st.lists(st.sampled_from(HOURS), max_size=4, unique=True), st.booleans()), max_size=6))
def test_an_hour_is_rewritten_when_it_was_committed_twice_and_late_when_a_commit_was(
    commits: list[tuple[list[str], bool]],
) -> None:
    events = [replace(commit(*hours), id=str(place)) for place, (hours, _) in enumerate(commits)]
    late = {str(place) for place, (_, is_late) in enumerate(commits) if is_late}
    for day in ("2026-07-01", "2026-07-02"):
        found = key_writes(daily(), day, events, late)
        own = [each for each in HOURS if each.startswith(day)]
        assert found.rewritten == tuple(hour for hour in own if sum(hour in hours for hours, _ in commits) > 1)
        assert found.late == tuple(hour for hour in own if any(hour in hours and is_late for hours, is_late in commits))


def test_partitions_of_one_hour_are_not_one_another_again() -> None:
    per = Per(Partitions(CLICKS), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY)

    def of(*regions: str) -> Event:
        rows = tuple(
            Partition(f"hour={HOURS[0]}/region={each}", {"hour": HOURS[0], "region": each}) for each in regions
        )
        return Event("".join(regions), "test", NOW, PartitionsAdded(CLICKS, rows, len(rows)))

    assert key_writes(per, "2026-07-01", [of("a"), of("b", "c")], ()).rewritten == ()
    assert key_writes(per, "2026-07-01", [of("a"), of("a", "c")], ()).rewritten == (HOURS[0],)
    assert key_writes(per, "no day", [of("a")], ()).rewritten == ()


def regional(*values: str) -> Per:
    return replace(daily(), each=KnownSet("region", values))


def landed(hour: str, region: str) -> Event:
    row = Partition(f"hour={hour}/region={region}", {"hour": hour, "region": region})
    return Event(f"{hour}{region}", "test", NOW, PartitionsAdded(CLICKS, (row,), 1))


@pytest.mark.parametrize(
    ("missing", "text", "spans"),
    [
        ([(5, "us")], "2026-07-01T05 of region us", [("2026-07-01T05", "2026-07-01T05", "us")]),
        (
            [(5, "us"), (5, "eu"), (7, "eu"), (7, "us"), (8, "eu"), (8, "us")],
            "2026-07-01T05 and 2026-07-01T07 to 2026-07-01T08 of region eu and us",
            [
                ("2026-07-01T05", "2026-07-01T05", "eu"),
                ("2026-07-01T07", "2026-07-01T08", "eu"),
                ("2026-07-01T05", "2026-07-01T05", "us"),
                ("2026-07-01T07", "2026-07-01T08", "us"),
            ],
        ),
        (
            [(23, "eu"), *((hour, "a/b") for hour in range(24))],
            "2026-07-01T23 of region eu; region a/b",
            [("2026-07-01T23", "2026-07-01T23", "eu"), ("2026-07-01T00", "2026-07-01T23", "a/b")],
        ),
        ([], "", []),
    ],
)
def test_what_is_missing_of_each_value_is_named_together(
    missing: list[tuple[int, str]], text: str, spans: list[tuple[str, ...]]
) -> None:
    per, day = regional("eu", "us", "a/b"), "2026-07-01"
    cells = [(hour, value) for value in ("eu", "us", "a/b") for hour in range(24) if (hour, value) not in missing]
    found = completeness(per, day, [landed(f"{day}T{hour:02}", value) for hour, value in cells])
    assert found is not None
    assert (str(found), list(found.spans())) == (text, spans)
    assert len(found.expected) == 72
    assert set(found.names) == {f"{day}T{hour:02} of region {value}" for hour, value in missing}


def test_a_key_without_finer_periods_names_the_values_that_are_missing() -> None:
    per = Per(Partitions(CLICKS), ("hour",), Grain.HOUR, each=KnownSet("region", ("eu", "us", "x")))
    found = completeness(per, HOURS[0], [landed(HOURS[0], "us"), landed(HOURS[0], "mars"), landed(HOURS[1], "x")])
    assert found is not None
    assert (str(found), found.names) == ("region eu and x", ("region eu", "region x"))
    writes = key_writes(per, HOURS[0], [landed(HOURS[0], "us"), replace(landed(HOURS[0], "us"), id="again")], {"again"})
    assert (writes.late, writes.rewritten) == (("region us",), ("region us",))
    none = completeness(replace(per, each=KnownSet("region", tuple(f"r{n}" for n in range(1000)))), HOURS[0], [])
    assert str(none) == "region r0, r1, r2, r3, r4 and 995 more"


@pytest.mark.parametrize("per", [regional("eu", "us", "a/b"), replace(daily(), rolled_up_to=Grain.MONTH)])
def test_a_stored_key_of_many_parts_names_what_is_missing_without_its_older_events(per: Per) -> None:
    engine = Engine(REF)
    engine.tell(NOW, Put(REF, 1, True, per))
    came = [landed(f"2026-07-01T{hour:02}", value) for hour in range(20) for value in ("eu", "us", "a/b")]
    for event in came:
        engine.tell(NOW, Occurred(event))
    assert engine.state is not None
    (key,) = engine.cells
    stored = state_codec.encode_key(engine.state.definition, engine.cells[key], key)
    read = state_codec.decode_key(stored, engine.state.definition, key)
    assert read is not None
    node, whole = (explain_cell(engine.state.plan, cell, key) for cell in (read, engine.cells[key]))
    while node.children:
        (node,), (whole,) = node.children, whole.children
    assert (node.events.older > 0, node.completeness) == (per.each is not None, whole.completeness)
    assert str(node.completeness).startswith("2026-07-01T20 to ")

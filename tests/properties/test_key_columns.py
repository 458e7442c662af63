"""The columns of a key are arguments of its runs: the values the events had, which name the same key again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.events.event import CustomHappened, Event, Outcome, ProgramReached
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.key_columns import LONGEST_VALUE, key_columns
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keyed_event import event_slices
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, ProgramStatus, Trigger
from streamsched.testing.examples import examples
from tests.support.keyed_strategies import FLIGHTS, triggers

NOW: Final = datetime(2013, 1, 8, tzinfo=UTC)
PROGRAM: Final = ProgramRef("default", "app", "load")
SCHEDULE: Final = ScheduleRef("default", "app", "s")
LANDED: Final = CustomEvent(EventName("default", "landed"))
ENDED: Final = ProgramStatus(PROGRAM)

#: Any text that an event can have: no NUL, no half characters.
TEXT: Final = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=8)
#: Text that a control character makes unfit for a terminal is handed on escaped.
PLAIN: Final = st.text(
    st.one_of(st.characters(exclude_categories=("Cs", "Cc")), st.sampled_from("%/\t\n\u00a0\u2028\ufeff\ue000")),
    min_size=1,
    max_size=8,
)
COLUMNS: Final = st.lists(
    st.sampled_from(["date", "region", "%", "key", "key.date", "trigger.key", "trigger.job", "logical.start.time"]),
    min_size=1,
    max_size=4,
    unique=True,
)


def key_of(per: Per, values: Mapping[str, str]) -> str:
    """The only key under which an event with these values counts."""
    if isinstance(per.trigger, ProgramStatus):
        fact: ProgramReached | CustomHappened = ProgramReached(PROGRAM, "r", Outcome.SUCCEEDED, values)
    else:
        fact = CustomHappened(LANDED.name, values)
    ((key, _, _),) = event_slices(per, Event("e", "test", NOW, fact))
    return key


def given_to(trigger: Trigger, key: str, **defaults: str) -> Mapping[str, str]:
    """The arguments of the run of a key."""
    program, schedule = Program(PROGRAM, BashJob("true"), defaults), Schedule(SCHEDULE, PROGRAM, trigger)
    return arguments(program, schedule, ReadyJob(SCHEDULE, 1, 1, NOW, (), key))


@given(COLUMNS, st.data())
def test_the_run_of_a_key_has_the_values_that_the_event_had(columns: list[str], data: st.DataObject) -> None:
    values = {column: data.draw(PLAIN) for column in columns}
    per = Per(LANDED, tuple(columns))

    found = given_to(per, key_of(per, values))

    assert {column: found[f"key.{column}"] for column in columns} == values
    taken = {"trigger.key", "trigger.job", "logical.start.time", *(f"key.{column}" for column in columns)}
    assert {column: found[column] for column in columns if column not in taken} == {
        column: value for column, value in values.items() if column not in taken
    }


@given(st.lists(st.sampled_from(["date", "region", "store"]), min_size=1, max_size=3, unique=True), st.data())
def test_a_key_goes_on_unchanged_for_any_number_of_hops(columns: list[str], data: st.DataObject) -> None:
    first = key = key_of(Per(LANDED, tuple(columns)), {column: data.draw(PLAIN) for column in columns})
    trigger = Per(LANDED, tuple(columns))
    for _ in range(data.draw(st.integers(1, 5))):
        given_now = given_to(trigger, key, **dict.fromkeys(columns, "the default"))
        trigger = Per(ENDED, tuple(columns))
        key = key_of(trigger, given_now)
        assert key == first


@given(COLUMNS, st.data())
def test_values_of_different_keys_stay_different_whatever_characters_they_have(
    columns: list[str], data: st.DataObject
) -> None:
    per = Per(LANDED, tuple(columns))
    one, other = ({column: data.draw(TEXT) for column in columns} for _ in range(2))
    controls = any(ord(each) < 32 or each == "\x7f" for text in (*one.values(), *other.values()) for each in text)

    keys = key_of(per, one), key_of(per, other)

    assert (keys[0] == keys[1]) == (one == other)
    assert all(key.isprintable() for key in keys)
    if not controls:
        assert [key_columns(per, key) for key in keys] == [one, other]


@examples(100)
@given(triggers(), st.sampled_from(["2013-01-07", "2013-01-07T05", "a", "a/2013-01-07"]))
def test_every_name_of_a_key_that_fits_is_given_and_nothing_else(trigger: Trigger, key: str) -> None:
    parts = key.split("/")
    expected: dict[str, str] = {}
    for names in naive_names(trigger):
        if len(names) == len(parts):
            expected = dict(zip(names, parts, strict=True)) | expected

    assert key_columns(trigger, key) == expected


def naive_names(trigger: Trigger) -> list[tuple[str, ...]]:
    """The names of each `per`, left to right."""
    if isinstance(trigger, Per):
        return [(str(trigger.rolled_up_to or trigger.fanned_out_to),)] if periodic(trigger) else [trigger.by]
    below = getattr(trigger, "triggers", ())
    return [names for child in below for names in naive_names(child)]


def periodic(per: Per) -> bool:
    return per.rolled_up_to is not None or per.fanned_out_to is not None


def test_a_period_is_named_by_itself_and_a_join_has_the_names_of_both_sides() -> None:
    hours = Per(Partitions(FLIGHTS), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY)
    dates = Per(LANDED, ("date",), Grain.DAY)

    assert key_columns(hours & dates, "2013-01-07") == {"day": "2013-01-07", "date": "2013-01-07"}
    assert key_columns(Per(LANDED, ("date",), Grain.DAY, fanned_out_to=Grain.HOUR), "2013-01-07T05") == {
        "hour": "2013-01-07T05"
    }


def test_of_one_name_for_two_values_the_leftmost_counts() -> None:
    assert key_columns(Per(LANDED, ("a", "b")) & Per(ENDED, ("b", "c")), "1/2") == {"a": "1", "b": "2", "c": "2"}


def test_a_key_of_another_number_of_columns_gives_none() -> None:
    per = Per(LANDED, ("region", "date"))

    assert [key_columns(per, key) for key in ("", "EU", "EU/a/b")] == [{}, {}, {}]
    assert key_columns(LANDED, "EU") == {}


def test_a_control_character_stays_escaped_and_a_key_of_an_earlier_release_as_it_is() -> None:
    per = Per(LANDED, ("region",))

    assert key_columns(per, key_of(per, {"region": "a\x1b[31m%"})) == {"region": "a%1B[31m%25"}
    assert key_columns(per, "New%A0York") == {"region": "New%A0York"}


def test_a_value_too_long_is_left_out_and_so_are_names_beyond_the_most() -> None:
    per = Per(LANDED, ("region", "date"))
    assert key_columns(per, f"{'x' * (LONGEST_VALUE + 1)}/{'y' * LONGEST_VALUE}") == {"date": "y" * LONGEST_VALUE}

    several = [Per(LANDED, tuple(f"c{place}-{n}" for n in range(40))) for place in range(9)]
    trigger: Trigger = several[0]
    for each in several[1:]:
        trigger = trigger & each
    found = key_columns(trigger, "/".join(map(str, range(40))))
    names = [f"c{place}-{n}" for place in range(9) for n in range(40)]
    assert [*found] == names[:100]

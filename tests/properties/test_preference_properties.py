"""Preferences of a namespace: which value of an argument a run gets, by a model that asks one layer after the other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.preferences import changed_preferences, with_preferences
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import CustomEvent

NOW: Final = datetime(2013, 1, 8, tzinfo=UTC)
PROGRAM: Final = ProgramRef("default", "app", "load")
SCHEDULE: Final = ScheduleRef("default", "app", "s")
NAMES: Final = ("date", "region", "mode", "target")
VALUES: Final = st.text("abc", max_size=2)
LAYER: Final = st.dictionaries(st.sampled_from(NAMES), VALUES)


@given(LAYER, LAYER, st.text("xyz", min_size=1, max_size=3), LAYER, LAYER)
def test_an_argument_is_that_of_the_highest_layer_that_has_it(
    defaults: Mapping[str, str],
    preferences: Mapping[str, str],
    date: str,
    properties: Mapping[str, str],
    person: Mapping[str, str],
) -> None:
    """Person, schedule, key, namespace, program: in this order."""
    trigger = Per(CustomEvent(EventName("default", "landed")), ("date",))
    schedule = Schedule(SCHEDULE, PROGRAM, trigger, properties=properties)
    ready = ReadyJob(SCHEDULE, 1, 1, NOW, (), date, Submission("j", "", person))
    program = Program(PROGRAM, BashJob("true"), defaults)

    found = arguments(with_preferences(program, preferences), schedule, ready)

    for name in NAMES:
        layers = (person, properties, {"date": date}, preferences, defaults)
        wanted = [layer[name] for layer in layers if name in layer]
        assert found.get(name) == (wanted[0] if wanted else None)
    assert program.arguments == defaults


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.none() | VALUES), max_size=5))
def test_changes_one_after_the_other_leave_what_was_set_last(changes: list[dict[str, str | None]]) -> None:
    found: Mapping[str, str] = {}
    for each in changes:
        found = changed_preferences(found, each)

    for name in NAMES:
        said = [each[name] for each in changes if name in each]
        assert found.get(name) == (said[-1] if said else None)

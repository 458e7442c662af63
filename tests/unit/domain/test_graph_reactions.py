"""Arguments from times, and definitions of ends and exit codes that contradict themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamsched.codec.graph.task import task_to_json, tasks_from_json
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.job_template import INSTANT, ComponentKind, JobTemplate
from streamsched.domain.graph.time_argument import NearTick, TimeArgument
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.triggers.trigger import Cron

TIMES = JobTemplate.parse("{due}", kinds={"due": ComponentKind.TIME})
FIRST = datetime(1980, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 80 * 365 * 86_400).map(lambda seconds: FIRST + timedelta(seconds=seconds))
CRONS = ["0 6 * * *", "*/15 1-3 * * *", "30 2 1 * *", "0 0 * * 1-5", "@hourly", "30 2 * * *"]


@given(
    at=INSTANTS,
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    after=st.booleans(),
)
def test_the_tick_beside_a_time_is_that_of_the_schedule(at: datetime, cron: str, zone: str, after: bool) -> None:
    argument = TimeArgument("due", INSTANT, tick=NearTick(cron, zone, after))
    beside = next_fire if after else previous_fire
    expected = beside(Cron(cron, zone), at, created_at=at)
    assert expected is not None

    assert argument.value(TIMES, (at.strftime(INSTANT),)) == expected.strftime(INSTANT)


@given(at=INSTANTS, back=st.integers(0, 10**6), ahead=st.integers(0, 10**6))
def test_back_and_ahead(at: datetime, back: int, ahead: int) -> None:
    moved = TimeArgument("due", INSTANT, back=timedelta(minutes=back), ahead=timedelta(minutes=ahead))
    expected = at + timedelta(minutes=ahead - back)
    assume(expected.year > 999)

    assert moved.value(TIMES, (at.strftime(INSTANT),)) == expected.strftime(INSTANT)


def test_a_task_is_the_same_after_a_trip_over_the_wire() -> None:
    given_task = {
        "job_id": "{due}_{client}",
        "components": {"due": "time"},
        "depends_on": {
            "l": [{"task": ["a"], "ends": ["complete", "skipped"]}],
            "r": [{"task": ["b"], "ends": ["failed"]}],
        },
        "arguments": {
            "ds": {"of": "due", "format": "%Y", "timeZone": "Asia/Tokyo", "back": "1d", "ahead": "2h"},
            "next": {"of": "due", "format": "%H", "next": {"cronExpression": "0 6 * * *", "timeZone": "UTC"}},
        },
        "exit_codes": {"11": ["c"], "10": [], "99": "skip"},
    }
    [task] = tasks_from_json({"t": given_task})

    assert task_to_json(task) == given_task
    assert tasks_from_json({"t": task_to_json(task)}) == (task,)


def test_a_component_named_ends_keeps_its_meaning() -> None:
    tasks = tasks_from_json(
        {"a": {"job_id": "{d}"}, "b": {"job_id": "{d}_{ends}", "depends_on": {"task": ["a"], "ends": ["x"]}}}
    )

    assert tasks[1].groups[0].entries[0].values == {"ends": ("x",)}
    assert tasks[1].groups[0].entries[0].ends is None


N: dict[str, Any] = {"job_id": "{d}"}


@pytest.mark.parametrize(
    ("tasks", "path"),
    [
        ({"a": N, "b": {**N, "depends_on": {"task": ["a"], "ends": []}}}, "$.tasks.b.depends_on.ends"),
        ({"a": N, "b": {**N, "depends_on": {"task": ["a"], "ends": ["gone"]}}}, "$.tasks.b.depends_on.ends[0]"),
        (
            {"a": N, "b": {**N, "depends_on": {"g": [{"task": ["a"]}, {"task": ["a"], "ends": ["failed"]}]}}},
            "$.tasks.b.depends_on.g[1].ends",
        ),
        ({"a": {**N, "exit_codes": {"11": ["b"]}}, "b": N}, "$.tasks.a.exit_codes['11'][0]"),
        ({"a": {**N, "exit_codes": {"126": "skip"}}}, "$.tasks.a.exit_codes['126']"),
        ({"a": {**N, "exit_codes": {"x": "skip"}}}, "$.tasks.a.exit_codes.x"),
        ({"a": {**N, "exit_codes": {"1": "jump"}}}, "$.tasks.a.exit_codes['1']"),
        ({"a": {**N, "arguments": {"x": {"of": "d", "format": "%Y"}}}}, "$.tasks.a.arguments.x"),
        ({"a": {**N, "arguments": {"d": {"of": "d", "format": "%Y"}}}}, "$.tasks.a.arguments.d"),
        ({"a": {**N, "arguments": {"x": {"of": "d", "format": "%c"}}}}, "$.tasks.a.arguments.x.format"),
        (
            {"a": {**N, "arguments": {"x": {"of": "d", "format": "", "previous": {"cronExpression": "0 0 30 2 *"}}}}},
            "$.tasks.a.arguments.x.previous.cronExpression",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_path(tasks: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as found:
        Graph(tasks_from_json(tasks))
    assert found.value.path == path


def test_an_exit_code_must_be_one_with_which_the_program_completes() -> None:
    app = {
        "application": "a",
        "programs": {"p": {"type": "bash", "command": "exit 9"}},
        "tasks": {"t": {"job_id": "{d}", "program": "p", "exit_codes": {"9": "skip"}}},
    }
    with pytest.raises(InvalidError, match="success_codes"):
        app_from_json(app)
    app["programs"]["p"]["success_codes"] = [9]  # type: ignore[index]
    app_from_json(app)

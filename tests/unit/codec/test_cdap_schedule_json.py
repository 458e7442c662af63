"""Schedules as CDAP's REST says them: read, written, updated in part, and what CDAP has no word for."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.codec import schedule as codec
from streamsched.dialects.cdap.codec import specification
from streamsched.dialects.cdap.codec.extension import extensions, is_readable
from streamsched.dialects.cdap.codec.trigger import to_json as trigger_to_json
from streamsched.domain.constraints.constraint import Concurrency, Delay, LastRun, TimeWindow
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.schedule import Misfire, OnTimeout, Overlap, Schedule
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    AtLeast,
    Cron,
    Every,
    OnExpiry,
    Partitions,
    Quiet,
    StreamGrowth,
    Trigger,
    Within,
)
from streamsched.testing.definitions import schedules

GOLDEN = Path(__file__).parents[2] / "golden" / "cdap"
NIGHTLY = ScheduleRef("default", "orders", "nightly")
UPDATED = datetime(2017, 5, 9, 22, 24, tzinfo=UTC)
LINES = {"type": "PARTITION", "dataset": "lines", "numPartitions": 5}
PROGRAM = {"programName": "OrderWF", "programType": "WORKFLOW"}
SMALL = {"program": PROGRAM, "trigger": LINES}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def written(schedule: Schedule) -> Any:
    return json.loads(json.dumps(codec.to_json(schedule)))


def test_what_cdap_says_of_a_schedule_is_read_and_written_as_it_was() -> None:
    detail = golden("schedule")

    schedule = codec.from_json(detail, NIGHTLY)

    assert str(schedule.trigger).startswith("(quartz cron '0 4 * * *' in UTC and (5 new")
    assert schedule.constraints == (
        Concurrency(3),
        Delay(timedelta(minutes=5)),
        LastRun(timedelta(hours=1)),
        TimeWindow(time(22), time(6), "America/Los_Angeles"),
    )
    assert str(schedule.trigger).endswith("failed or succeeded)) within 1d, else start over")
    assert (schedule.program, schedule.timeout) == (ProgramRef("default", "orders", "OrderWF"), timedelta(days=1))
    assert codec.to_json(schedule, enabled=True, updated_at=UPDATED) == detail
    assert [*extensions(detail)] == []


def test_a_limit_that_does_not_say_whether_to_wait_aborts() -> None:
    limits = [{"type": "CONCURRENCY", "maxConcurrency": 2}, {"type": "LAST_RUN", "millisSinceLastRun": 1000}]
    read = codec.from_json({**SMALL, "constraints": limits}, NIGHTLY)
    assert read.constraints == (Concurrency(2, wait=False), LastRun(timedelta(seconds=1), wait=False))


def test_the_example_of_the_reference_is_read() -> None:
    codec.from_json(schemas.SCHEDULE.schema["examples"][0], ScheduleRef("default", "flights", "weekly"))


def test_cdaps_smallest_request_is_read_with_its_defaults() -> None:
    schedule = codec.from_json(golden("minimal_create"), NIGHTLY)

    assert (schedule.description, schedule.properties, schedule.constraints) == ("", {}, ())
    assert schedule.timeout == timedelta(days=1)


@pytest.mark.parametrize("name", ["description", "properties", "constraints", "timeoutMillis"])
def test_a_member_that_is_null_is_one_that_is_left_out(name: str) -> None:
    assert codec.from_json({**SMALL, name: None}, NIGHTLY) == codec.from_json(SMALL, NIGHTLY)


@given(schedules())
def test_any_schedule_of_ours_survives_the_way_through_cdaps_json(schedule: Schedule) -> None:
    assert codec.from_json(written(schedule), schedule.ref) == schedule


@given(schedules())
def test_what_was_shown_changes_nothing_when_it_is_sent_back(schedule: Schedule) -> None:
    detail = codec.to_json(schedule, enabled=True, updated_at=UPDATED)

    assert codec.change_schedule(schedule, detail) == schedule
    assert codec.change_schedule(schedule, {}) == schedule
    assert codec.change_schedule(schedule, dict.fromkeys(detail)) == schedule


@given(schedules(), st.data())
def test_an_update_of_some_fields_leaves_the_others_as_they_were(schedule: Schedule, data: st.DataObject) -> None:
    other = data.draw(schedules())
    names = ["description", "properties", "constraints"]
    chosen = data.draw(st.sets(st.sampled_from(names)))
    body = {name: value for name, value in written(other).items() if name in chosen}

    after = codec.change_schedule(schedule, body)

    wanted = {name: getattr(other if name in chosen else schedule, name) for name in names}
    assert after == replace(schedule, **wanted)


@given(schedules())
def test_the_extensions_of_a_schedule_are_all_that_keeps_cdap_from_reading_it_as_it_is(schedule: Schedule) -> None:
    detail = written(schedule)
    ours = [*extensions(detail)]

    assert is_readable(detail) == (not any(path.endswith(".type") for path in ours))
    assert all(path.startswith("$.") for path in ours)
    for path in ours:
        found: Any = detail
        for step in path[2:].replace("]", "").replace("[", ".").split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]


def test_what_cdap_has_no_word_for_stands_beside_its_fields_where_it_is_not_our_default() -> None:
    small = codec.from_json(SMALL, NIGHTLY)
    wide = replace(
        small,
        trigger=Partitions(DatasetRef("default", "lines"), 5) & Every(timedelta(hours=1)),
        overlap=Overlap.COALESCE,
        misfire=Misfire.SKIP,
        on_timeout=OnTimeout.LAUNCH,
        consumption=Consumption.PAIRED,
        timeout=timedelta(microseconds=1500),
    )

    assert [*extensions(codec.to_json(small))] == []
    assert [*extensions(codec.to_json(wide))] == [
        "$.trigger.triggers[0].distinct",
        "$.trigger.triggers[1].type",
        "$.timeout",
        "$.overlap",
        "$.misfire",
        "$.onTimeout",
        "$.consumption",
    ]


@pytest.mark.parametrize("said", [2**63 - 1, 2**63 + 193, 9_223_372_036_854_776_000])
def test_a_timeout_too_long_to_count_is_none(said: int) -> None:
    schedule = codec.from_json({**SMALL, "timeoutMillis": said}, NIGHTLY)

    assert schedule.timeout is None
    assert codec.to_json(schedule)["timeoutMillis"] == 2**63 - 1


FIVE = Partitions(DatasetRef("default", "lines"), 5)
ONE = Partitions(DatasetRef("default", "lines"))
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("trigger", "limited"),
    [
        (ONE, False),
        (ONE | Cron("0 4 * * *"), False),
        (AtLeast(1, (ONE, ONE)), False),
        (AllOf((ONE,)), False),
        (StreamGrowth(StreamRef("default", "clicks"), 5), False),
        (FIVE, True),
        (ONE & Cron("0 4 * * *"), True),
        (ONE | FIVE, True),
        (AtLeast(2, (ONE, ONE, Cron("0 4 * * *"))), True),
        (AnyOf((AllOf((ONE,)),)), False),
        (Quiet(FIVE, HOUR), False),
        (FIVE & Within(FIVE, HOUR), False),
        (Within(FIVE, HOUR, OnExpiry.FIRE), False),
    ],
)
def test_the_timeout_limits_the_accumulation_of_what_takes_several_events(trigger: Trigger, limited: bool) -> None:
    body = {"program": PROGRAM, "trigger": trigger_to_json(trigger), "timeoutMillis": 3_600_000}

    schedule = codec.from_json(body, NIGHTLY)

    assert schedule.timeout == HOUR
    assert schedule.trigger == (Within(trigger, HOUR) if limited else trigger)
    assert codec.to_json(schedule)["timeoutMillis"] == 3_600_000
    assert "timeout" not in codec.to_json(schedule)


@pytest.mark.parametrize("timeout", [None, HOUR, timedelta(microseconds=1500)])
@pytest.mark.parametrize(
    "trigger", [ONE, FIVE, Within(FIVE, HOUR), Within(FIVE, timedelta(microseconds=1500)), Within(ONE, HOUR)]
)
def test_limits_that_cdap_could_not_set_so_come_back_as_they_were(trigger: Trigger, timeout: timedelta | None) -> None:
    schedule = replace(codec.from_json(SMALL, NIGHTLY), trigger=trigger, timeout=timeout)

    assert codec.from_json(written(schedule), NIGHTLY) == schedule


def test_a_new_timeout_limits_both_whatever_limits_of_ours_there_were() -> None:
    schedule = replace(codec.from_json(SMALL, NIGHTLY), trigger=FIVE, timeout=HOUR)

    assert codec.change_schedule(schedule, {"timeoutMillis": 3_600_000}) == schedule
    changed = codec.change_schedule(schedule, {"timeoutMillis": 2})
    assert (changed.trigger, changed.timeout) == (
        Within(FIVE, timedelta(milliseconds=2)),
        timedelta(milliseconds=2),
    )


def test_a_new_trigger_gets_the_limit_that_stands() -> None:
    schedule = codec.from_json({**SMALL, "timeoutMillis": 3_600_000}, NIGHTLY)

    changed = codec.change_schedule(schedule, {"trigger": {**LINES, "numPartitions": 6}})

    assert changed.trigger == Within(Partitions(DatasetRef("default", "lines"), 6, distinct=False), HOUR)


def test_each_satisfaction_is_a_job_and_each_commit_counts_by_default() -> None:
    schedule = codec.from_json({**SMALL, "trigger": LINES}, NIGHTLY)
    assert schedule.overlap is Overlap.QUEUE
    assert schedule.trigger == Within(Partitions(DatasetRef("default", "lines"), 5, distinct=False), 24 * HOUR)

    reported = codec.from_json({**SMALL, "trigger": {**LINES, "distinct": True}, "overlap": "coalesce"}, NIGHTLY)
    assert reported.overlap is Overlap.COALESCE
    assert reported.trigger == Within(Partitions(DatasetRef("default", "lines"), 5), 24 * HOUR)


@pytest.mark.parametrize(
    "program", [{"programType": "Workflow"}, {"programName": "OrderWF"}, {}, {"programType": "SPARK"}]
)
def test_an_update_that_names_its_program_in_part_keeps_the_rest(program: dict[str, str]) -> None:
    schedule = codec.from_json(SMALL, NIGHTLY)

    assert codec.change_schedule(schedule, {"program": program}) == schedule


def test_an_update_to_another_program_is_refused() -> None:
    schedule = codec.from_json(SMALL, NIGHTLY)

    with pytest.raises(DecodeError, match="with the same program as"):
        codec.change_schedule(schedule, {"program": {"programName": "other"}})


@pytest.mark.parametrize("kind", ["CONCURRENCY", "concurrency", "Concurrency"])
def test_the_type_of_a_constraint_is_read_in_any_case_of_letters(kind: str) -> None:
    limit = {"type": kind, "maxConcurrency": 2}

    assert codec.from_json({**SMALL, "constraints": [limit]}, NIGHTLY).constraints == (Concurrency(2, wait=False),)


@pytest.mark.parametrize("kind", ["TIME_RANGE", "time-range"])
def test_a_time_range_without_a_zone_is_refused(kind: str) -> None:
    hours = {"type": kind, "startTime": "22:00", "endTime": "06:00"}

    with pytest.raises(DecodeError) as refused:
        codec.from_json({**SMALL, "constraints": [hours]}, NIGHTLY)
    assert refused.value.path == "$.constraints[0].timeZone"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "$: must be an object but is a list"),
        ({}, "$.program: No program was specified for the schedule"),
        ({"program": {}}, "$.program.programType: No program type was specified for the schedule"),
        (
            {"program": {"programType": "Workflow"}},
            "$.program.programName: No program name was specified for the schedule",
        ),
        (
            {"program": {"programName": "x", "programType": "Service"}},
            "$.program.programType: Cannot schedule program x of type Service: Only workflows can be scheduled",
        ),
        (
            {"program": {"programName": "x", "programType": "Poem"}},
            "$.program.programType: must be one of WORKFLOW, SPARK but is 'Poem'",
        ),
        ({"program": PROGRAM}, "$.trigger: No trigger was specified for the schedule"),
        (
            {**SMALL, "name": "hourly"},
            "$.name: Schedule name in the body of the request (hourly) does not match the schedule name in the path "
            "parameter (nightly)",
        ),
        ({**SMALL, "trigger": {**LINES, "numPartitions": 0}}, "$.trigger.numPartitions: must be at least 1 but is 0"),
        ({**SMALL, "timeoutMillis": 0}, "$.timeoutMillis: must be at least 1 but is 0"),
        ({**SMALL, "timeout": "soon"}, "$.timeout: 'soon' is no duration"),
        ({**SMALL, "owner": "me"}, "$.owner: unknown field"),
        (
            {**SMALL, "constraints": [{"type": "DELAY", "millisAfterTrigger": 5, "waitUntilMet": False}]},
            "$.constraints[0].waitUntilMet: must be true: a delay always waits",
        ),
        (
            {
                **SMALL,
                "constraints": [{"type": "TIME_RANGE", "startTime": "1:00", "endTime": "2:00", "timeZone": "MARS"}],
            },
            "$.constraints[0].timeZone: 'MARS' is no IANA time zone",
        ),
    ],
)
def test_a_refusal_names_the_field_in_cdaps_words_where_it_has_some(body: Any, message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        codec.from_json(body, NIGHTLY)
    assert str(refused.value).startswith(message)


def test_an_update_cannot_choose_another_program() -> None:
    schedule = codec.from_json(SMALL, NIGHTLY)

    assert codec.change_schedule(schedule, {"program": {"programName": "OrderWF", "programType": "spark"}}) == schedule
    with pytest.raises(InvalidError, match=r"\$\.program: Must update the schedule '.*nightly' with the same program"):
        codec.change_schedule(schedule, {"program": {**PROGRAM, "programName": "other"}})


@pytest.mark.parametrize("name", ["specification_time", "specification_stream"])
def test_the_older_form_is_read_and_written(name: str) -> None:
    spec = golden(name)

    schedule = specification.from_json(spec, NIGHTLY)

    assert specification.is_specification(spec)
    assert schedule.timeout == timedelta(days=1)
    assert specification.to_json(schedule) == spec


def test_the_older_form_of_a_stream_is_its_growth() -> None:
    schedule = specification.from_json(golden("specification_stream"), NIGHTLY)

    assert schedule.trigger == StreamGrowth(StreamRef("default", "clicks"), 10 * 1_048_576)


def test_without_a_type_the_older_form_is_timed() -> None:
    spec = golden("specification_time")
    del spec["scheduleType"]

    assert isinstance(specification.from_json(spec, NIGHTLY).trigger, Cron)


@pytest.mark.parametrize("properties", [{}, {"properties": None}])
def test_the_older_form_may_leave_out_its_properties(properties: dict[str, Any]) -> None:
    spec = {"scheduleType": "TIME", "schedule": {"cronEntry": "0 4 * * *"}, "program": PROGRAM}

    assert specification.from_json({**spec, **properties}, NIGHTLY).properties == {}


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({}, "$.schedule.cronEntry: is missing"),
        ({"cronEntry": "soon"}, "$.schedule.cronEntry: "),
        ({"cronEntry": "0 4 * * *", "name": "hourly"}, "$.schedule.name: Schedule name in the body"),
        ({"cronEntry": "0 4 * * *", "streamName": "s"}, "$.schedule.streamName: unknown field"),
        (
            {"cronEntry": "0 4 * * *", "runConstraints": {"maxConcurrentRuns": 0}},
            "$.schedule.runConstraints.maxConcurrentRuns: must be at least 1 but is 0",
        ),
    ],
)
def test_a_refusal_of_the_older_form_names_its_own_field(schedule: Any, message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        specification.from_json({"scheduleType": "TIME", "schedule": schedule, "program": PROGRAM}, NIGHTLY)
    assert str(refused.value).startswith(message)


def test_triggers_of_other_kinds_have_no_older_form() -> None:
    assert specification.to_json(codec.from_json(SMALL, NIGHTLY)) is None

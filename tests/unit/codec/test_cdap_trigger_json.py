"""Triggers in CDAP's dialect: Quartz cron, Java's zones, and Unix cron shown in Quartz's words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.events.native import dumps
from streamsched.codec.triggers.quartz import to_quartz
from streamsched.dialects.cdap.codec import notification
from streamsched.dialects.cdap.codec.extension import extensions
from streamsched.dialects.cdap.codec.trigger import from_json, to_json
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import Outcome
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import Cron, ProgramStatus, Trigger
from streamsched.testing.definitions import triggers

ORDERS = AppRef("shop", "orders")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)

numbers = st.integers(0, 7).map(str)
weekday_terms = st.one_of(
    numbers,
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: f"{min(pair)}-{max(pair)}"),
    st.sampled_from(["MON", "sat", "MON-FRI", "*/2", "1-5/2", "2/3", "0-7"]),
)
weekdays = st.lists(weekday_terms, min_size=1, max_size=3).map(",".join)
days = st.sampled_from(["1", "13", "*/5", "1-7", "10,20,30"])
times = st.sampled_from(["0 4", "*/15 *", "30 0,12", "15 30 22", "0 0-6/2"])


def time(expression: str, **others: Any) -> dict[str, Any]:
    return {"type": "TIME", "cronExpression": expression, **others}


def fires(leaf: Cron) -> list[datetime | None]:
    found: list[datetime | None] = []
    after: datetime | None = NOON
    for _ in range(5):
        after = None if after is None else next_fire(leaf, after, created_at=NOON)
        found.append(after)
    return found


@given(triggers)
def test_any_trigger_of_ours_survives_the_way_through_cdaps_json(trigger: Trigger) -> None:
    assert from_json(to_json(trigger)) == trigger


@given(times, st.one_of(st.tuples(days, st.just("*")), st.tuples(st.just("*"), weekdays), st.just(("*", "*"))))
def test_unix_cron_with_one_of_the_days_always_has_quartz_words_that_fire_at_the_same_times(
    time_of_day: str, chosen: tuple[str, str]
) -> None:
    unix = f"{time_of_day} {chosen[0]} * {chosen[1]}"

    quartz = to_quartz(unix)

    assert quartz is not None
    assert fires(Cron(quartz, dialect=Dialect.QUARTZ)) == fires(Cron(unix))


@pytest.mark.parametrize(
    ("unix", "quartz"),
    [
        ("0 4 * * *", "0 4 * * *"),
        ("0 4 * * 1-5", "0 4 ? * MON-FRI"),
        ("0 4 * * 0,6", "0 4 ? * SUN,SAT"),
        ("0 4 * * 5-7", "0 4 ? * FRI-SUN"),
        ("0 4 1 * *", "0 4 1 * *"),
        ("30 0 4 1 JAN *", "30 0 4 1 JAN ?"),
        ("@weekly", "0 0 ? * SUN"),
        ("0 4 13 * 5", None),
        ("nonsense", None),
        ("@noon", None),
    ],
)
def test_unix_cron_in_quartzs_words(unix: str, quartz: str | None) -> None:
    assert to_quartz(unix) == quartz


@pytest.mark.parametrize(
    ("said", "leaf"),
    [
        (time("0 4 * * *"), Cron("0 4 * * *", dialect=Dialect.QUARTZ)),
        (time("0 4 ? * 2-6"), Cron("0 4 ? * 2-6", dialect=Dialect.QUARTZ)),
        (time("0 0 4 L * ?", timeZone="PST"), Cron("0 0 4 L * ?", "America/Los_Angeles", Dialect.QUARTZ)),
        (time("0 4 * * 1-5", dialect="unix"), Cron("0 4 * * 1-5")),
        (time("0 4 ? * MON-FRI", unix="0 4 * * 1-5"), Cron("0 4 * * 1-5")),
        (time("0 5 ? * MON-FRI", unix="0 4 * * 1-5"), Cron("0 5 ? * MON-FRI", dialect=Dialect.QUARTZ)),
        (time("0 0 0 4 7 ? 2031", dialect="quartz"), Cron("0 0 0 4 7 ? 2031", dialect=Dialect.QUARTZ)),
    ],
)
def test_a_time_is_quartz_unless_it_says_otherwise(said: dict[str, Any], leaf: Cron) -> None:
    assert from_json({**said, "type": "time"}) == leaf
    assert from_json({"type": "AND", "triggers": [said]}) == from_json({"type": "AND", "triggers": [to_json(leaf)]})


def test_monday_to_friday_is_not_sunday_to_thursday() -> None:
    shown = to_json(Cron("0 4 * * 1-5"))

    assert shown == time("0 4 ? * MON-FRI", unix="0 4 * * 1-5")
    assert to_json(Cron("0 4 13 * 5")) == time("0 4 13 * 5", dialect="unix")


def test_a_program_is_shown_with_its_kind_and_version() -> None:
    waits = ProgramStatus(ProgramRef("default", "up", "UpWF"), frozenset({Outcome.SUCCEEDED}))

    shown = to_json(waits)

    assert shown["programId"] == {
        "namespace": "default",
        "application": "up",
        "version": "-SNAPSHOT",
        "type": "Workflow",
        "program": "UpWF",
        "entity": "PROGRAM",
    }
    assert from_json(shown) == waits


def test_arguments_asked_of_a_run_are_an_extension_that_round_trips() -> None:
    eastern = Match.from_values({"region": OneOf(frozenset({"EU"}))})
    waits = ProgramStatus(ProgramRef("default", "up", "UpWF"), match=eastern)

    shown = to_json(waits)

    assert shown["match"] == {"region": "EU"}
    assert [*extensions({"trigger": shown})] == ["$.trigger.match"]
    assert from_json(shown) == waits


@pytest.mark.parametrize("program_type", ["Workflow", "SPARK", "Mapreduce"])
def test_a_program_type_is_not_part_of_a_program_s_identity(program_type: str) -> None:
    names = {"namespace": "default", "application": "up", "program": "join", "type": program_type}
    trigger = from_json({"type": "PROGRAM_STATUS", "programId": names, "programStatuses": ["COMPLETED"]})
    run = dumps({**names, "run": "r1", "version": "-SNAPSHOT"}).decode()
    event = notification.from_json(
        {"notificationType": "PROGRAM_STATUS", "properties": {"programRunId": run, "programStatus": "COMPLETED"}},
        fallback_id="e1",
        fallback_time=NOON,
    )

    assert trigger == ProgramStatus(ProgramRef("default", "up", "join"))
    assert event.key == "program:default.up.join:succeeded"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            time("0 0 0 4 7 ? 2031"),
            "$.trigger.cronExpression: Invalid cron entry format in '0 0 0 4 7 ? 2031'. Cron entry must contain 5 or 6",
        ),
        (time("0 4 * *"), "$.trigger.cronExpression: Invalid cron entry format in '0 4 * *'"),
        (time("0 4 1 * 1"), "$.trigger.cronExpression: exactly one of day of month and day of week must be '?'"),
        (time("0 4 ? * 0"), "$.trigger.cronExpression: "),
        (time("0 4 * * *", unix=5), "$.trigger.unix: unknown field"),
        (time("0 4 * * *", timeZone="XYZ"), "$.trigger.timeZone: 'XYZ' is no IANA time zone"),
        ({"type": "AND", "triggers": [time("x")]}, "$.trigger.triggers[0].cronExpression: Invalid cron entry format"),
        ({"type": "TIME"}, "$.trigger.cronExpression: is missing"),
        ({"type": 7}, "$.trigger.type: must be a text but is a number"),
    ],
)
def test_a_refusal_names_the_field(said: Any, message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        from_json(said, "$.trigger", app=ORDERS)
    assert str(refused.value).startswith(message)


def test_a_trigger_nested_beyond_reason_is_refused_without_exhausting_the_stack() -> None:
    said: Any = time("0 4 * * *")
    for _ in range(900):
        said = {"type": "AND", "triggers": [said]}
    with pytest.raises(DecodeError, match="nested deeper than"):
        from_json(said)

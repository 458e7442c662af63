"""Deadlines as JSON and as people define them."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest
from hypothesis import given

from streamsched import App, every, finish_by, start_by, takes_at_most
from streamsched.codec.schedules import deadline as codec
from streamsched.codec.schedules.schedule import app_from_json, app_to_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, OnMiss
from streamsched.testing.definitions import deadlines

HALF_HOUR = timedelta(minutes=30)


@given(deadlines)
def test_a_deadline_survives_the_way_through_json(deadline: Deadline) -> None:
    assert codec.from_json(codec.to_json(deadline)) == deadline


@pytest.mark.parametrize(
    ("deadline", "json"),
    [
        (Deadline(DeadlineKind.START, HALF_HOUR), {"type": "start-by", "within": "30m", "then": "warn"}),
        (
            Deadline(DeadlineKind.FINISH, at=time(6), zone="Europe/Berlin", then=OnMiss.CANCEL),
            {"type": "finish-by", "at": "06:00", "timeZone": "Europe/Berlin", "then": "cancel"},
        ),
        (
            Deadline(DeadlineKind.DURATION, HALF_HOUR, then=OnMiss.START, program="rescue"),
            {"type": "duration", "within": "30m", "then": "start", "program": "rescue"},
        ),
    ],
)
def test_golden(deadline: Deadline, json: dict[str, Any]) -> None:
    assert codec.to_json(deadline) == json
    assert codec.from_json(json) == deadline


@pytest.mark.parametrize(
    ("json", "path", "reason"),
    [
        ({"type": "start-by"}, "$", "either how much time"),
        ({"type": "start-by", "within": "1h", "at": "06:00"}, "$", "either how much time"),
        ({"type": "begin-by", "within": "1h"}, "$.type", "start-by"),
        ({"type": "start-by", "within": "soon"}, "$.within", "soon"),
        ({"type": "start-by", "within": "0s"}, "$.within", "positive"),
        ({"type": "finish-by", "at": "25:00"}, "$.at", "time of day"),
        ({"type": "finish-by", "at": "06:00", "timeZone": "Mars"}, "$.timeZone", "Mars"),
        ({"type": "finish-by", "within": "1h", "timeZone": "UTC"}, "$.timeZone", "goes with 'at'"),
        ({"type": "duration", "at": "06:00"}, "$.at", "no duration"),
        ({"type": "duration", "within": "1h", "then": "start"}, "$.program", "goes with"),
        ({"type": "duration", "within": "1h", "program": "p"}, "$.program", "goes with"),
        ({"type": "duration", "within": "1h", "than": "warn"}, "$.than", "unknown|known|not"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(json: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason) as caught:
        codec.from_json(json)
    assert caught.value.path == path


def test_they_are_defined_beside_the_other_policies() -> None:
    app = App("app")
    load, rescue = app.bash("load", "true"), app.bash("rescue", "true")
    app.schedule(
        "s",
        load,
        when=every("1d"),
        deadlines=[
            start_by("30m"),
            start_by("06:00", then="cancel"),
            finish_by("7:30", "Europe/Berlin", then=rescue),
            takes_at_most("2h", then="rescue"),
        ],
    )

    definition = app.definition()

    assert definition.schedules[0].deadlines == (
        Deadline(DeadlineKind.START, HALF_HOUR),
        Deadline(DeadlineKind.START, at=time(6), then=OnMiss.CANCEL),
        Deadline(DeadlineKind.FINISH, at=time(7, 30), zone="Europe/Berlin", then=OnMiss.START, program="rescue"),
        Deadline(DeadlineKind.DURATION, timedelta(hours=2), then=OnMiss.START, program="rescue"),
    )
    assert app_from_json(app_to_json(definition)) == definition


def test_a_program_that_is_not_defined_cannot_be_started() -> None:
    app = App("app")
    for number in range(12):
        app.bash(f"a{number:02}", "true")
    app.schedule("s", app.bash("rescue", "true"), when=every("1d"), deadlines=[start_by("30m", then="resque")])

    with pytest.raises(InvalidError) as caught:
        app.definition()
    known = "rescue, a00, a01, a02, a03, a04, a05, a06, a07, a08 and 3 more"
    assert caught.value.path == "$.schedules[0].deadlines[0].program"
    assert caught.value.reason == f"schedule 's' starts unknown program 'resque' (known: {known})"


def test_a_zone_goes_with_a_time_of_day() -> None:
    with pytest.raises(InvalidError, match="time of day"):
        start_by("30m", "Europe/Berlin")

"""The policy for late events as people write it, in JSON and in YAML."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.codec.schedules.policy import LATE, read_late
from streamsched.codec.schedules.schedule import schedule_from_json
from streamsched.define.yaml import read_yaml
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.lateness import Late, OnLate

SCHEDULE = """
application: flights
name: weekly
program: join
trigger: {type: PARTITION, dataset: flights, numPartitions: 7}
"""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("6h", Late(timedelta(hours=6), OnLate.DROP)),
        ("{after: 90s}", Late(timedelta(seconds=90), OnLate.DROP)),
        ("{after: 1d, then: side}", Late(timedelta(days=1), OnLate.SIDE_OUTPUT)),
        ("{after: 1d, then: accept}", Late(timedelta(days=1), OnLate.ACCEPT)),
    ],
)
def test_a_schedule_says_from_when_on_an_event_is_late(said: str, meant: Late) -> None:
    schedule = schedule_from_json(read_yaml(f"{SCHEDULE}late: {said}\n".encode()))

    assert schedule.late == meant
    assert read_late(LATE.write(meant)) == meant


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("soon", "$.late: 'soon' is no duration"),
        ("{after: 0s}", "$.late.after: must be at least 0:00:01"),
        ("10ms", "$.late: must be at least 0:00:01"),
        ("{then: drop}", "$.late.after: is missing"),
        ("{after: 1h, then: keep}", "$.late.then: must be one of accept, drop, side"),
        ("{after: 1h, when: x}", "$.late.when"),
        ("[1h]", "$.late: must be an object"),
    ],
)
def test_what_is_wrong_is_reported_with_its_path(said: str, message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        schedule_from_json(read_yaml(f"{SCHEDULE}late: {said}\n".encode()))

    assert str(refused.value).startswith(message)

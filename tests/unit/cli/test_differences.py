"""Differences in plans, in the words of definitions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamsched.cli.differences import difference_lines
from streamsched.codec.schedules import constraint as codec
from streamsched.domain.constraints.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.constraints.rate import Rate

HOUR = timedelta(hours=1)


def lines(field: str, before: Any, after: Any) -> list[str]:
    return list(difference_lines({"field": field, "before": before, "after": after}))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([Delay(HOUR)], [Delay(2 * HOUR)], ["delay 1h → 2h"]),
        ([Delay(HOUR)], [Delay(timedelta(microseconds=1500))], ["delay 1h → 1ms500us"]),
        ([LastRun(HOUR)], [LastRun(2 * HOUR)], ["last run interval 1h → 2h"]),
        ([Rate(3, HOUR)], [Rate(3, HOUR, burst=2)], ["rate burst none → 2"]),
        ([Rate(3, HOUR)], [Rate(3, 2 * HOUR)], ["rate per 1h → 2h"]),
        ([], [Delay(HOUR), Concurrency(2)], ["also 1h after the trigger", "also fewer than 2 active runs"]),
        ([Delay(HOUR), Concurrency(2)], [Concurrency(2)], ["no longer 1h after the trigger"]),
        ([Delay(HOUR), Concurrency(2)], [Concurrency(2), Delay(HOUR)], ["in another order"]),
    ],
    ids=str,
)
def test_constraints(before: list[Constraint], after: list[Constraint], said: list[str]) -> None:
    found = lines("constraints", *([codec.to_json(each) for each in some] for some in (before, after)))

    assert found == [f"constraints: {each}" for each in said]


def test_a_constraint_of_a_later_version_is_shown_as_json() -> None:
    assert lines("constraints", [], [{"type": "MOON", "phase": 3}]) == [
        'constraints: also {"type": "MOON", "phase": 3}'
    ]


def test_a_duration_that_is_too_long_for_any_is_counted() -> None:
    """As a server may send it: the codec refuses it in definitions."""
    delay = [{"type": "DELAY", "millisAfterTrigger": count} for count in (3_600_000, 2**63 - 1)]

    assert lines("constraints", delay[:1], delay[1:]) == ["constraints: delay 1h → 9223372036854775807ms"]
    assert lines("constraints", [], delay[1:]) == [
        'constraints: also {"type": "DELAY", "delay": "9223372036854775807ms"}'
    ]


def test_members_of_objects_and_other_values() -> None:
    assert lines("timeout", None, "1h") == ["timeout: none → 1h"]
    assert lines("description", "", "nightly") == ['description: "" → nightly']
    assert lines("properties", {"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == [
        "properties: b 2 → 3",
        "properties: c none → 4",
    ]
    assert lines("when", "default.a.b completes", "default.a.c completes") == ["when: a.b completes → a.c completes"]

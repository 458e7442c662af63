"""Preferences that are refused, each with its place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import LONGEST_NAME, MOST_PARTS
from streamsched.domain.schedules.arguments import LONGEST_VALUE
from streamsched.domain.schedules.preferences import LONGEST_PREFERENCES, changed_preferences, check_preferences

AS_MANY = {f"n{number}": "" for number in range(MOST_PARTS)}
#: As long together as is permitted, in two.
AS_LONG = {"a": "v" * LONGEST_VALUE, "b": "v" * (LONGEST_PREFERENCES - LONGEST_VALUE - 2)}


@pytest.mark.parametrize(
    ("preferences", "path", "reason"),
    [
        ({**AS_MANY, "more": ""}, "$.arguments", "at most 1000 arguments but has 1001"),
        ({"n" * (LONGEST_NAME + 1): ""}, "$.arguments", "characters in a name"),
        ({"a b": "v" * (LONGEST_VALUE + 1)}, "$.arguments['a b']", "at most 32768 characters"),
        ({**AS_LONG, "c": ""}, "$.arguments", "at most 65536 characters in all names and values but has 65537"),
        ({"a": "\0"}, "$.arguments.a", "NUL"),
        ({"": "v"}, "$.arguments", "empty name"),
        ({"trigger.job": "v"}, "$.arguments['trigger.job']", "what started a run"),
        ({"key.date": "v"}, "$.arguments['key.date']", "what started a run"),
        ({"logical.start.time": "0"}, "$.arguments['logical.start.time']", "what started a run"),
    ],
    ids=lambda each: "" if isinstance(each, Mapping) else each,
)
def test_preferences_beyond_a_limit_are_refused(preferences: Mapping[str, str], path: str, reason: str) -> None:
    with pytest.raises(InvalidError) as refused:
        changed_preferences({}, preferences)

    assert refused.value.path == path
    assert reason in refused.value.reason


def test_preferences_at_the_limits_are_accepted() -> None:
    check_preferences(AS_MANY)
    check_preferences(AS_LONG)
    check_preferences({"n" * LONGEST_NAME: "v" * LONGEST_VALUE})
    check_preferences({"\U0001f6eb 'x'": "\u202e\n"})


def test_a_change_that_makes_them_too_many_is_refused_and_one_that_removes_is_not() -> None:
    with pytest.raises(InvalidError):
        changed_preferences(AS_MANY, {"more": ""})

    assert changed_preferences(AS_MANY, {"more": "", "n0": None}).keys() == {*AS_MANY, "more"} - {"n0"}

"""Triggers that Python would accept and that could not mean what they say."""

from __future__ import annotations

import pytest

from streamsched import cron, event, partitions
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef


def test_and_or_and_not_between_triggers_are_refused() -> None:
    a, b = partitions("a"), cron("0 8 * * *")
    for write in (lambda: a and b, lambda: a or b, lambda: not a, lambda: event("x") if b else a):  # type: ignore[reportGeneralTypeIssues]  # wrong on purpose
        with pytest.raises(InvalidDefinitionError, match="write `&` for and"):
            write()


def test_a_veto_that_could_never_come_is_refused() -> None:
    """Without `within` nothing is waited for, and a trigger that holds with its first event has not begun before it."""
    app = AppRef("default", "a")
    for wanted in (cron("0 8 * * *"), event("a"), partitions("a")):
        with pytest.raises(InvalidDefinitionError, match="holds at once, before any veto"):
            wanted.unless(event("b")).build(app)
        wanted.unless(event("b"), within="1h").build(app)
    partitions("a", 2).unless(event("b")).build(app)

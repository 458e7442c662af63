"""Rows of `expectations` as values."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from streamsched.codec.schedules.expectation import stored_expectation
from streamsched.domain.names import AppRef
from streamsched.domain.ticks.due_times import DueTime
from streamsched.domain.ticks.watched_expectation import WatchedExpectation

_SECOND: Final = timedelta(seconds=1)


class ExpectationRow(NamedTuple):
    """An expectation with what was seen for it. `starts`: local time. `recent`: seconds."""

    id: str
    app: str
    definition: Any
    since: datetime
    due_at: datetime | None
    starts: datetime | None
    opens_at: datetime | None
    learning: bool
    recent: list[int]
    open_misses: int
    stopped: str | None


def watched_expectation(row: ExpectationRow) -> WatchedExpectation:
    """Raises:
    DecodeError, InvalidDefinitionError: a later release has stored it.
    """
    expectation = stored_expectation(row.definition, AppRef.parse(row.app))
    due = None
    if row.due_at is not None and row.starts is not None:
        due = DueTime(row.due_at, row.starts, row.opens_at, row.learning)
    return WatchedExpectation(expectation, row.since, due, tuple(each * _SECOND for each in row.recent))


def due_columns(watched: WatchedExpectation) -> tuple[Any, ...]:
    """The columns since, due_at, starts, opens_at, learning, and recent as a literal of an array."""
    due = watched.due
    seconds = ",".join(str(each // _SECOND) for each in watched.recent)
    if due is None:
        return watched.since, None, None, None, False, f"{{{seconds}}}"
    return watched.since, due.at, due.start, due.opens_at, due.learning, f"{{{seconds}}}"

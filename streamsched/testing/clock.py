"""A clock that tests set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class SettableClock:
    """A `ports.clock.Clock` that starts at `now` (UTC) and changes only by `advance` or `set`. It is in doubt
    while `in_doubt` is set to True.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = now
        self.in_doubt = False

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        self._now += by

    def set(self, now: datetime) -> None:
        self._now = now

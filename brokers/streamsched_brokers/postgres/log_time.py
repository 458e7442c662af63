"""The time of records: PostgreSQL's, unless the process knows better."""

from __future__ import annotations

from streamsched.ports.clock import Clock


class LogTime:
    """The clock of a broker object, if it was given one."""

    def __init__(self) -> None:
        self._clock: Clock | None = None

    def keep(self, clock: Clock) -> None:
        """Goes by this clock from now on."""
        self._clock = clock

    def now_ms(self) -> int | None:
        """Its time in milliseconds since 1970, for queries that compare it with PostgreSQL's; None compares nothing."""
        return None if self._clock is None else int(self._clock.now().timestamp() * 1000)

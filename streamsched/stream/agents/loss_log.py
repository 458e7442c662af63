"""Says what schedules that correlate lose: one line for many losses, at most one in ten seconds of the log."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog

log = structlog.get_logger()

_EVERY: Final = timedelta(seconds=10)
#: Losses that a line names.
_NAMED: Final = 5


class LossLog:
    """Collects losses and says them at the end of a turn. Those within ten seconds after a line wait for the next turn
    after that; `shard_keys_lost` and the states count every one at once.
    """

    def __init__(self) -> None:
        self._expired = self._dropped = self._refused = 0
        self._first: list[str] = []
        self._reason = ""
        self._again_at: datetime | None = None

    def add(self, schedule: str, signal: str, *, expired: int, dropped: int, refused: int, reason: str) -> None:
        """Keys of a schedule ended incomplete, or an event was refused, at this signal."""
        self._expired += expired
        self._dropped += dropped
        self._refused += refused
        self._reason = self._reason or reason
        if len(self._first) < _NAMED:
            self._first.append(f"{schedule}: {signal}")

    def say(self, at: datetime) -> None:
        """Writes the line that is due. `at`: log time of the turn."""
        if not self._first or (self._again_at is not None and at < self._again_at):
            return
        log.warning(
            "schedule.losses",
            expired=self._expired,
            dropped=self._dropped,
            refused=self._refused,
            first=self._first,
            reason=self._reason,
        )
        self._expired = self._dropped = self._refused = 0
        self._first, self._reason, self._again_at = [], "", at + _EVERY

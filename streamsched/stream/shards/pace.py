"""How large a shard's turns are, and how soon one follows another.

A turn costs about the same for one record as for a hundred: a fetch, a transaction, some wake-ups. So while records
come steadily a shard lingers before it reads, and the next turn takes what came meanwhile: up to `OVER_COMMIT` times as
long as a commit takes, and less when few records come. A slow log gets larger turns, the first record after a pause
never waits, and a shard with a backlog reads at once.
"""

from __future__ import annotations

from typing import Final

#: A turn that takes longer to fold makes the next one smaller: otherwise the worker would miss its heartbeats and lose
#: its shards.
LONG_TURN_S: Final = 0.4
MIN_RECORDS: Final = 250
FIRST_RECORDS: Final = 1_000
#: From one turn to the next, in durations of a commit.
OVER_COMMIT: Final = 5.0
#: Records a second from which a shard lingers as long as it may.
FULL_RATE: Final = 125.0
#: Seconds without lingering after a barrier: schedules of several shards wait for the next ones.
HURRY_S: Final = 0.5
#: A turn of so many records is large enough: the next one begins at once.
ENOUGH: Final = 250
#: Seconds over which rate and duration are averaged.
_MEMORY_S: Final = 0.5


class TurnPace:
    """Of one shard. Times are seconds of one steady clock."""

    def __init__(self, *, max_records: int, linger_s: float, now: float) -> None:
        """`max_records`: about the largest number of records in a turn. `linger_s`: the most from one turn to the next
        while records come steadily.
        """
        self._most = max_records
        self._linger_s = linger_s
        #: About the largest number of records in the next turn.
        self.max_records = min(FIRST_RECORDS, max_records)
        self._began = now - linger_s
        self._rate = self._commit_s = 0.0
        self._last = 0
        self._hurried_until = now

    def pause_s(self, now: float) -> float:
        """Seconds until the next turn should read."""
        if self._last >= ENOUGH or now < self._hurried_until:
            return 0.0
        linger_s = min(self._linger_s, OVER_COMMIT * self._commit_s) * min(1.0, self._rate / FULL_RATE)
        return max(0.0, self._began + linger_s - now)

    def hurry(self, now: float) -> None:
        """The next turns begin at once, for `HURRY_S`."""
        self._hurried_until = now + HURRY_S

    def record_turn(self, records: int, *, began: float, folding_s: float, commit_s: float) -> None:
        """Call it when a turn was committed. `began`: when it had its records; `folding_s`, `commit_s`: how long they
        took, and their commit.
        """
        gap = max(began - self._began, 1e-3)
        weight = min(1.0, gap / _MEMORY_S)
        self._rate += weight * (records / gap - self._rate)
        self._commit_s += weight * (commit_s - self._commit_s)
        self._began, self._last = began, records
        if folding_s > LONG_TURN_S:
            self.max_records = max(MIN_RECORDS, self.max_records // 2)
        elif folding_s < LONG_TURN_S / 4:
            self.max_records = min(self._most, self.max_records * 2)

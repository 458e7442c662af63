"""Leases of launcher processes: which of them live, and the return of the inline runs of those that do not.

A launcher renews its lease all the time; expiry is judged by the database's clock only. A lease is found expired only
by a launcher that has held its own without a gap for one lease time, so none is given up because the database was away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RecoveredRuns:
    """What became of the inline runs of one launcher.

    Attributes:
        requeued: never started, PENDING again; no attempt was used up.
        repeated: started, therefore LOST and followed by another attempt.
        ended: started, and LOST for good: the retry policy, a stop or a change of the schedule permits no repetition.
        more: whether started runs are left; call again.
    """

    requeued: int = 0
    repeated: int = 0
    ended: int = 0
    more: bool = False

    @property
    def runs(self) -> int:
        return self.requeued + self.repeated + self.ended


class LauncherLeases(Protocol):
    """The leases of launchers, which are named by their `RunnerId` as text. Every method raises UnavailableError when
    the database is unavailable.
    """

    async def renew(self, launcher: str, ttl: timedelta) -> None:
        """Holds the lease for another `ttl`, also one that expired."""
        ...

    async def release(self, launcher: str) -> None:
        """Ends the lease now: others may take back what is left. Idempotent."""
        ...

    async def expired(self, launcher: str, ttl: timedelta) -> Sequence[str]:
        """Other launchers whose leases have expired, at most 100; none until `launcher` has held its own for `ttl`."""
        ...

    async def recover(
        self, launcher: str, ttl: timedelta, *, gone: bool, attempts: int, now: datetime
    ) -> RecoveredRuns | None:
        """Takes back the inline runs of a launcher whose lease has expired, all that were never started before any
        other. With `gone`, the started ones are marked lost too, as `RunMonitorStore.mark_lost` does, and the lease is
        forgotten with the last of them. Without, its process lives, and may be receiving the answers.

        None, without a change: its lease was renewed, or another launcher is recovering it.
        """
        ...

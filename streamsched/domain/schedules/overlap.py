"""Overlap: the policy for a satisfaction while an earlier job or run of the schedule is not finished."""

from __future__ import annotations

from enum import StrEnum


class Overlap(StrEnum):
    """What happens to a satisfaction while an earlier job of the schedule waits, or its run is active.

    COALESCE: it joins the waiting job. QUEUE: each job waits by itself. LATEST: only the newest keeps waiting, others
    end. SKIP: it ends, also while a run is active. CANCEL_RUNNING: as LATEST; once its constraints hold, the schedule's
    active runs are cancelled, and it starts after they have ended. KILL_RUNNING: the same, killing them.
    """

    COALESCE = "coalesce"
    QUEUE = "queue"
    LATEST = "latest"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"
    KILL_RUNNING = "kill_running"

    @property
    def keeps_newest(self) -> bool:
        """Whether only the newest of several waiting jobs is kept."""
        return self is Overlap.LATEST or self.stops

    @property
    def stops(self) -> bool:
        """Whether it ends the schedule's active runs."""
        return self in (Overlap.CANCEL_RUNNING, Overlap.KILL_RUNNING)

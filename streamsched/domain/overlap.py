"""Overlap: what becomes of a satisfaction while the one before is not done with."""

from __future__ import annotations

from enum import StrEnum


class Overlap(StrEnum):
    """What becomes of a satisfaction while an earlier job of the schedule still waits, or its run still runs.

    COALESCE: it joins the waiting job. QUEUE: each waits for itself. LATEST: the newest waits on, the others end.
    SKIP: it ends, also while a run of the schedule is active. CANCEL_RUNNING: as LATEST, and once its constraints allow
    it the schedule's active runs are asked to end; it starts when they have. KILL_RUNNING: the same, without asking.
    """

    COALESCE = "coalesce"
    QUEUE = "queue"
    LATEST = "latest"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"
    KILL_RUNNING = "kill_running"

    @property
    def newest_only(self) -> bool:
        """Whether of several waiting jobs only the newest goes on."""
        return self is Overlap.LATEST or self.stops

    @property
    def stops(self) -> bool:
        """Whether it ends the schedule's active runs."""
        return self in (Overlap.CANCEL_RUNNING, Overlap.KILL_RUNNING)

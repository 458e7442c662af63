"""Where a run's metrics come from."""

from __future__ import annotations

from typing import Protocol

from streamsched.domain.jobs.run_metrics import RunMetrics


class MetricsSource(Protocol):
    """Reads the metrics of one run. Called by one thread, which nothing else waits for: a call may block."""

    def read(self) -> RunMetrics | None:
        """The metrics now; None when nothing is known yet. Called every few seconds, and repeatedly at the end until
        `is_finished`. Each call takes a bounded part of what is new.

        Raises:
            OSError, ValueError: they cannot be read now; it is asked again.
        """
        ...

    def is_finished(self) -> bool:
        """Whether `read` has taken everything that was there at its last call."""
        ...

    def note_end(self) -> None:
        """The run's processes have ended: what is read from now on is the last."""
        ...

    def close(self) -> None:
        """Removes what was kept for the metrics alone."""
        ...

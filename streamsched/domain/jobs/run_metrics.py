"""What a run's engine reports of it: how far it is, and what it has used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, Self

from streamsched.domain.limits import MOST

#: Fields of which several applications of one run have the largest, not the sum.
_LARGEST: Final = frozenset({"executors_peak", "peak_memory_bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """The metrics of a run, of all its Spark applications together.

    Attributes:
        stages, tasks: those known so far; more come with each job of the application. Skipped ones do not count.
        stages_done, tasks_done: those that succeeded; of a repeated stage once for each attempt.
        tasks_failed: attempts that failed; attempts that Spark killed, such as speculative ones, do not count.
        executors: alive now, 0 at the end. `executors_peak`: most at a time.
        executor_seconds: the sum of the times that executors were there, busy or not.
        task_seconds: the sum of the run times of all attempts of tasks.
        input_bytes, input_rows, shuffle_read_bytes: read by all attempts.
        output_bytes, output_rows, shuffle_write_bytes: written by attempts that succeeded.
        spilled_bytes: written to disk for lack of memory.
        peak_memory_bytes: the most memory of the JVM of one executor, as its tasks report it; 0 without a report.
        complete: whether the application has ended and everything of it is in these numbers.
    """

    stages: int = 0
    stages_done: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    executors: int = 0
    executors_peak: int = 0
    executor_seconds: int = 0
    task_seconds: int = 0
    input_bytes: int = 0
    input_rows: int = 0
    output_bytes: int = 0
    output_rows: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    spilled_bytes: int = 0
    peak_memory_bytes: int = 0
    complete: bool = False

    @classmethod
    def combine(cls, parts: Iterable[Self]) -> Self:
        """The metrics of several applications of one run. Numbers stay within those of PostgreSQL and Java."""
        parts = tuple(parts)
        found = {
            name: min(MOST, max(values, default=0) if name in _LARGEST else sum(values))
            for name in NUMBERS
            for values in ([getattr(part, name) for part in parts],)
        }
        return cls(**found, complete=bool(parts) and all(part.complete for part in parts))


#: The names of the numbers, in order.
NUMBERS: Final = tuple(each.name for each in fields(RunMetrics) if each.name != "complete")

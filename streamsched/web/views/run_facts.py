"""What a run's engine reports of it, in words. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.web.views.facts import size_words
from streamsched.web.views.times import duration_words


class RunFact(NamedTuple):
    """A line: its name and what is reported."""

    name: str
    text: str


def run_facts(metrics: RunMetrics) -> list[RunFact]:
    """The lines of which there is something to say, those that change first at the top."""
    failed = f", {metrics.tasks_failed:,} failed" if metrics.tasks_failed else ""
    more = "" if metrics.complete else " so far"
    now = f"{metrics.executors:,} now, " if not metrics.complete else ""
    found = [
        RunFact("stages", f"{metrics.stages_done:,} of {metrics.stages:,}{more}"),
        RunFact("tasks", f"{metrics.tasks_done:,} of {metrics.tasks:,}{more}{failed}"),
        RunFact("executors", f"{now}at most {metrics.executors_peak:,} at a time"),
    ]
    if metrics.executor_seconds:
        spent, busy = (duration_words(timedelta(seconds=n)) for n in (metrics.executor_seconds, metrics.task_seconds))
        found.append(RunFact("executor time", f"{spent}, of which tasks ran {busy}"))
    for name, size, rows in (
        ("input", metrics.input_bytes, metrics.input_rows),
        ("output", metrics.output_bytes, metrics.output_rows),
    ):
        if size or rows:
            found.append(RunFact(name, f"{size_words(size)}, {rows:,} rows"))
    if metrics.shuffle_read_bytes or metrics.shuffle_write_bytes:
        read, written = size_words(metrics.shuffle_read_bytes), size_words(metrics.shuffle_write_bytes)
        found.append(RunFact("shuffle", f"{read} read, {written} written"))
    if metrics.spilled_bytes:
        found.append(RunFact("spilled to disk", size_words(metrics.spilled_bytes)))
    if metrics.peak_memory_bytes:
        found.append(RunFact("peak memory", f"{size_words(metrics.peak_memory_bytes)} of one executor"))
    return found

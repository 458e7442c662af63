"""A run's metrics as people see them."""

from __future__ import annotations

import io

from streamsched.cli.run_metrics import TaskBar, metric_lines
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.wire.runs import METRICS as METRICS_SHAPE

METRICS = METRICS_SHAPE.write(
    RunMetrics(
        stages=4, stages_done=2, tasks=200, tasks_done=84, tasks_failed=1, executors=2, executors_peak=3,
        executor_seconds=3700, input_bytes=1_500_000, input_rows=1000, shuffle_write_bytes=10,
    )
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_say_what_there_is() -> None:
    assert metric_lines(None) == {}
    assert metric_lines(METRICS) == {
        "stages": "2 of 4 so far",
        "tasks": "84 of 200 so far, 1 failed",
        "executors": "2, at most 3 at a time",
        "executor time": "1h1m40s, tasks 0s",
        "input": "1.5 MB, 1,000 rows",
        "shuffle": "0 B read, 10 B written",
    }


def test_times_longer_than_any_duration_are_counted() -> None:
    found = metric_lines({**METRICS, "executorSeconds": 2**63 - 1, "taskSeconds": 0})

    assert found["executor time"] == "9223372036854775807s, tasks 0s"


def test_the_bar_is_the_last_line_of_a_terminal_only() -> None:
    terminal, file = Terminal(), io.StringIO()
    for output in (terminal, file):
        bar = TaskBar(output)
        bar.show(None)
        bar.show(METRICS)
        bar.show(METRICS)
        bar.clear()
        bar.clear()

    assert file.getvalue() == ""
    assert terminal.getvalue().count("tasks") == 1
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "84 of 200 tasks, 1 failed, stage 2 of 4" in terminal.getvalue()

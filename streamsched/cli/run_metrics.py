"""A run's metrics for people: lines of `run show`, and the bar of `run logs --follow`.

>>> size(999), size(1_500_000)
('999 B', '1.5 MB')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TextIO

from streamsched.cli.progress_bar import bar
from streamsched.domain.time.duration import units_text

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_WIDTH: Final = 40
_CLEAR: Final = "\r\x1b[K"


def size(count: int) -> str:
    """A number of bytes, with units of 1000."""
    number, unit = float(count), 0
    while number >= 999.95 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def metric_lines(metrics: Mapping[str, Any] | None) -> dict[str, str]:
    """Names and texts of the metrics of a run; those of which there is nothing to say are left out."""
    if metrics is None:
        return {}
    failed = f", {metrics['tasksFailed']:,} failed" if metrics["tasksFailed"] else ""
    more = "" if metrics["complete"] else " so far"
    there, busy = (units_text(metrics[name], "s") for name in ("executorSeconds", "taskSeconds"))
    found = {
        "stages": f"{metrics['stagesDone']:,} of {metrics['stages']:,}{more}",
        "tasks": f"{metrics['tasksDone']:,} of {metrics['tasks']:,}{more}{failed}",
        "executors": f"{metrics['executors']:,}, at most {metrics['executorsPeak']:,} at a time",
        "executor time": f"{there}, tasks {busy}",
    }
    pairs = {
        "input": (metrics["inputBytes"], metrics["inputRows"]),
        "output": (metrics["outputBytes"], metrics["outputRows"]),
    }
    found |= {name: f"{size(count)}, {rows:,} rows" for name, (count, rows) in pairs.items() if count or rows}
    read, written = metrics["shuffleReadBytes"], metrics["shuffleWriteBytes"]
    if read or written:
        found["shuffle"] = f"{size(read)} read, {size(written)} written"
    if metrics["spilledBytes"]:
        found["spilled to disk"] = size(metrics["spilledBytes"])
    if metrics["peakMemoryBytes"]:
        found["peak memory"] = f"{size(metrics['peakMemoryBytes'])} of one executor"
    return found


class TaskBar:
    """The last line of a terminal, which shows how many tasks of a run have ended. Any other output must be written
    after `clear`. Writes nothing when the output is no terminal.
    """

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._enabled = output.isatty()
        self._shown = ""

    def show(self, metrics: Mapping[str, Any] | None) -> None:
        """Draws the bar, if there are tasks and it has changed."""
        text = "" if metrics is None or not metrics["tasks"] else task_line(metrics)
        if self._enabled and text and text != self._shown:
            self._output.write(f"{_CLEAR}{text}")
            self._output.flush()
            self._shown = text

    def clear(self) -> None:
        """Removes the bar."""
        if self._shown:
            self._output.write(_CLEAR)
            self._output.flush()
            self._shown = ""


def task_line(metrics: Mapping[str, Any]) -> str:
    """The bar with its numbers, in one line."""
    done, failed, tasks = metrics["tasksDone"], metrics["tasksFailed"], metrics["tasks"]
    drawn = bar({"#": min(done, tasks)}, tasks, width=_WIDTH)
    also = f", {failed:,} failed" if failed else ""
    return f"{drawn} {done:,} of {tasks:,} tasks{also}, stage {metrics['stagesDone']:,} of {metrics['stages']:,}"

"""The sum of a Spark application's event log, kept while its lines come.

Needs memory for the stages and executors that are active, whatever the length of the log. Lines that are not JSON, of
unknown events or of unknown shape change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson

from streamsched.domain.jobs.run_metrics import RunMetrics

_MS: Final = 1000
_EVENT: Final = b'{"Event":"'
#: The largest number that is believed; twice as many fit into a double.
_MOST: Final = 2**62


class EventLogSummary:
    """The metrics of one application. Belongs to one thread."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(
            (
                *("input_bytes", "input_rows", "output_bytes", "output_rows", "shuffle_read_bytes"),
                *("shuffle_write_bytes", "spilled_bytes", "tasks_failed", "task_ms", "peak_memory"),
            ),
            0,
        )
        #: Stages that are expected, with their number of tasks, and the expected stages of each job.
        self._expected: dict[int, int] = {}
        self._jobs: dict[int, list[int]] = {}
        #: Stages that run: (id, attempt) → number of tasks, tasks that succeeded.
        self._running: dict[tuple[int, int], tuple[int, int]] = {}
        self._stages_done = self._stages_ended = self._tasks_done = self._tasks_ended = 0
        #: Executors that are there, with their start in ms since the epoch.
        self._executors: dict[str, int] = {}
        self._executor_ms = self._executors_peak = 0
        self._ended_at = 0

    def add(self, line: bytes) -> None:
        """Takes one line of the log into account. Never raises."""
        name, quote, _ = line[len(_EVENT) : len(_EVENT) + 64].partition(b'"')
        read = _READERS.get(name)
        if read is None or not quote or not line.startswith(_EVENT):
            return
        try:
            event = orjson.loads(line)
            if self._concerns(name, event):
                read(self, event)
        except (ValueError, KeyError, TypeError, AttributeError):
            return

    def metrics(self, now_ms: int) -> RunMetrics:
        """The metrics so far. `now_ms`: since the epoch, up to which the executors that are there are counted."""
        until = self._ended_at or now_ms
        alive = sum(max(0, until - since) for since in self._executors.values())
        running = self._running.values()
        sums = self._sums
        return RunMetrics(
            stages=self._stages_ended + len(running) + len(self._expected),
            stages_done=self._stages_done,
            tasks=self._tasks_ended + sum(total for total, _ in running) + sum(self._expected.values()),
            tasks_done=self._tasks_done + sum(done for _, done in running),
            tasks_failed=sums["tasks_failed"],
            executors=0 if self._ended_at else len(self._executors),
            executors_peak=self._executors_peak,
            executor_seconds=(self._executor_ms + alive) // _MS,
            task_seconds=sums["task_ms"] // _MS,
            input_bytes=sums["input_bytes"],
            input_rows=sums["input_rows"],
            output_bytes=sums["output_bytes"],
            output_rows=sums["output_rows"],
            shuffle_read_bytes=sums["shuffle_read_bytes"],
            shuffle_write_bytes=sums["shuffle_write_bytes"],
            spilled_bytes=sums["spilled_bytes"],
            peak_memory_bytes=sums["peak_memory"],
            complete=bool(self._ended_at),
        )

    def _concerns(self, name: bytes, event: dict[str, Any]) -> bool:
        """Whether the event is counted. Raises what `add` passes over."""
        del name, event
        return True

    def _job_started(self, event: dict[str, Any]) -> None:
        stages = {each["Stage ID"]: _number(each, "Number of Tasks") for each in event["Stage Infos"]}
        known = {stage for stage, _ in self._running}
        new = {stage: tasks for stage, tasks in stages.items() if stage not in self._expected and stage not in known}
        self._expected |= new
        self._jobs[event["Job ID"]] = list(new)

    def _job_ended(self, event: dict[str, Any]) -> None:
        for stage in self._jobs.pop(event["Job ID"], ()):
            self._expected.pop(stage, None)  # it was skipped

    def _stage_started(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        self._expected.pop(info["Stage ID"], None)
        self._running[info["Stage ID"], info["Stage Attempt ID"]] = (_number(info, "Number of Tasks"), 0)

    def _stage_ended(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        self._expected.pop(info["Stage ID"], None)
        total, done = self._running.pop((info["Stage ID"], info["Stage Attempt ID"]), (0, 0))
        failed = bool(info.get("Failure Reason"))
        self._stages_ended += 1
        self._stages_done += not failed
        self._tasks_done += done
        self._tasks_ended += done if failed else total

    def _task_ended(self, event: dict[str, Any]) -> None:
        reason = event["Task End Reason"]["Reason"]
        stage = event["Stage ID"], event["Stage Attempt ID"]
        succeeded = reason == "Success"
        if succeeded and stage in self._running:
            total, done = self._running[stage]
            self._running[stage] = total, min(total, done + 1)  # a speculative attempt may succeed as well
        elif not succeeded and reason != "TaskKilled":
            self._sums["tasks_failed"] += 1
        memory = event.get("Task Executor Metrics") or {}
        self._sums["peak_memory"] = max(
            self._sums["peak_memory"], _number(memory, "JVMHeapMemory") + _number(memory, "JVMOffHeapMemory")
        )
        self._add_metrics(event.get("Task Metrics") or {}, succeeded=succeeded)

    def _add_metrics(self, found: dict[str, Any], *, succeeded: bool) -> None:
        sums = self._sums
        sums["task_ms"] += _number(found, "Executor Run Time")
        sums["spilled_bytes"] += _number(found, "Disk Bytes Spilled")
        shuffled = found.get("Shuffle Read Metrics") or {}
        sums["shuffle_read_bytes"] += _number(shuffled, "Remote Bytes Read") + _number(shuffled, "Local Bytes Read")
        read = found.get("Input Metrics") or {}
        sums["input_bytes"] += _number(read, "Bytes Read")
        sums["input_rows"] += _number(read, "Records Read")
        if not succeeded:
            return
        written = found.get("Output Metrics") or {}
        sums["output_bytes"] += _number(written, "Bytes Written")
        sums["output_rows"] += _number(written, "Records Written")
        sums["shuffle_write_bytes"] += _number(found.get("Shuffle Write Metrics") or {}, "Shuffle Bytes Written")

    def _executor_added(self, event: dict[str, Any]) -> None:
        self._executors[event["Executor ID"]] = _number(event, "Timestamp")
        self._executors_peak = max(self._executors_peak, len(self._executors))

    def _executor_removed(self, event: dict[str, Any]) -> None:
        since = self._executors.pop(event["Executor ID"], None)
        if since is not None:
            self._executor_ms += max(0, _number(event, "Timestamp") - since)

    def _application_ended(self, event: dict[str, Any]) -> None:
        self._ended_at = _number(event, "Timestamp")


def _number(found: Mapping[str, Any], name: str) -> int:
    """A whole number from 0 on; 0 when it is absent.

    Raises:
        TypeError, ValueError: it is something else.
    """
    value = found.get(name, 0)
    if type(value) is not int:
        raise TypeError(name)
    return min(max(value, 0), _MOST)


_READERS: Final[Mapping[bytes, Callable[[EventLogSummary, dict[str, Any]], None]]] = MappingProxyType(
    {
        b"SparkListenerJobStart": EventLogSummary._job_started,
        b"SparkListenerJobEnd": EventLogSummary._job_ended,
        b"SparkListenerStageSubmitted": EventLogSummary._stage_started,
        b"SparkListenerStageCompleted": EventLogSummary._stage_ended,
        b"SparkListenerTaskEnd": EventLogSummary._task_ended,
        b"SparkListenerExecutorAdded": EventLogSummary._executor_added,
        b"SparkListenerExecutorRemoved": EventLogSummary._executor_removed,
        b"SparkListenerApplicationEnd": EventLogSummary._application_ended,
    }
)

"""Metrics from Spark's event log: a recorded one, made-up ones, garbage, and files that roll while they are read."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.spark.metrics import event_log_files
from streamsched.spark.metrics.event_log import EventLogSummary
from streamsched.spark.metrics.event_log_files import EventLogFiles
from streamsched.testing.clock import SettableClock
from streamsched.wire.runs import METRICS, stored_metrics

RECORDED = Path(__file__).parents[2] / "golden" / "spark" / "event-log-4.3.0.jsonl"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def line(event: str, **fields: Any) -> bytes:
    return json.dumps({"Event": f"SparkListener{event}", **fields}, separators=(",", ":")).encode()


def stage(number: int, tasks: int, attempt: int = 0, **more: Any) -> dict[str, Any]:
    return {"Stage ID": number, "Stage Attempt ID": attempt, "Number of Tasks": tasks, **more}


def task(number: int, *, attempt: int = 0, reason: str = "Success", rows: int = 0, heap: int = 0) -> bytes:
    return line(
        "TaskEnd",
        **{
            "Stage ID": number,
            "Stage Attempt ID": attempt,
            "Task End Reason": {"Reason": reason},
            "Task Executor Metrics": {"JVMHeapMemory": heap, "JVMOffHeapMemory": 1},
            "Task Metrics": {
                "Executor Run Time": 1500,
                "Input Metrics": {"Bytes Read": 10, "Records Read": rows},
                "Output Metrics": {"Bytes Written": 20, "Records Written": rows},
            },
        },
    )


def summed(*lines: bytes, now_ms: int = 0) -> RunMetrics:
    summary = EventLogSummary()
    for each in lines:
        summary.add(each)
    return summary.metrics(now_ms)


def test_a_recorded_log_gives_what_spark_did() -> None:
    found = summed(*RECORDED.read_bytes().splitlines())

    assert found.complete
    assert (found.stages_done, found.stages) == (4, 4)
    assert (found.tasks_done, found.tasks, found.tasks_failed) == (6, 6, 0)
    assert (found.output_rows, found.executors, found.executors_peak) == (1003, 0, 1)
    assert found.executor_seconds == 173  # from the executor's start to the application's end
    assert found.shuffle_write_bytes == found.shuffle_read_bytes > 0
    assert found.peak_memory_bytes > 100_000_000


def test_tasks_count_while_their_stage_runs() -> None:
    begun = (line("JobStart", **{"Job ID": 0, "Stage Infos": [stage(0, 4), stage(1, 2)]}),)
    started = (*begun, line("StageSubmitted", **{"Stage Info": stage(0, 4)}))

    assert (summed(*begun).tasks, summed(*begun).stages) == (6, 2)
    found = summed(*started, task(0, rows=5, heap=7), task(0, rows=5), task(0, reason="ExceptionFailure", rows=9))
    assert (found.tasks_done, found.tasks, found.tasks_failed) == (2, 6, 1)
    assert (found.input_rows, found.output_rows, found.task_seconds) == (19, 10, 4)
    assert found.peak_memory_bytes == 8
    assert not found.complete


def test_skipped_stages_repeated_stages_and_speculative_tasks() -> None:
    found = summed(
        line("JobStart", **{"Job ID": 0, "Stage Infos": [stage(0, 9), stage(1, 2)]}),
        line("StageSubmitted", **{"Stage Info": stage(1, 2)}),
        task(1),
        line("StageCompleted", **{"Stage Info": {**stage(1, 2), "Failure Reason": "lost"}}),
        line("StageSubmitted", **{"Stage Info": stage(1, 2, 1)}),
        *(task(1, attempt=1) for _ in range(3)),
        task(1, attempt=1, reason="TaskKilled"),
        task(1),  # of the former attempt, late
        line("StageCompleted", **{"Stage Info": stage(1, 2, 1)}),
        line("JobEnd", **{"Job ID": 0}),
    )
    assert (found.stages_done, found.stages) == (1, 2)
    assert (found.tasks_done, found.tasks, found.tasks_failed) == (3, 3, 0)


def test_executors_are_counted_in_time() -> None:
    lines = (
        line("ExecutorAdded", **{"Executor ID": "1", "Timestamp": 1_000}),
        line("ExecutorAdded", **{"Executor ID": "2", "Timestamp": 2_000}),
        line("ExecutorRemoved", **{"Executor ID": "1", "Timestamp": 5_000}),
    )
    running = summed(*lines, now_ms=12_000)
    ended = summed(*lines, line("ApplicationEnd", Timestamp=9_000), now_ms=99_000)

    assert (running.executors, running.executors_peak, running.executor_seconds) == (1, 2, 14)
    assert (ended.executors, ended.executors_peak, ended.executor_seconds) == (0, 2, 11)


def test_garbage_changes_nothing() -> None:
    good = [line("StageSubmitted", **{"Stage Info": stage(0, 4)}), task(0, rows=3)]
    bad = [
        b"",
        b"\xff\xfe",
        b'{"Event":"SparkListenerTaskEnd"',
        b'{"Event":"SparkListenerTaskEnd"}',
        line("TaskEnd", **{"Stage ID": [], "Stage Attempt ID": {}, "Task End Reason": {"Reason": "Success"}}),
        line("StageSubmitted", **{"Stage Info": stage(7, "x")}),  # type: ignore[arg-type]
        line("JobStart", **{"Job ID": 1, "Stage Infos": [1]}),
        line("ApplicationEnd", Timestamp="soon"),
        line("ExecutorAdded", **{"Executor ID": "1", "Timestamp": None}),
        b"[" * 5000,
    ]
    mixed = [each for pair in zip(bad, [good[0], good[1], *bad[2:]], strict=True) for each in pair]

    assert summed(*mixed) == summed(*good)
    huge = summed(*good, *(task(0, rows=2**62) for _ in range(9)))
    assert RunMetrics.combine([huge]).input_rows == 2**63 - 1


def test_a_cut_log_never_raises() -> None:
    lines = RECORDED.read_bytes().splitlines()
    chance = random.Random(7)
    for _ in range(300):
        each = chance.choice(lines)
        at = chance.randrange(len(each))
        summed(*lines[:5], each[:at] + bytes([chance.randrange(256)]) + each[at + 1 :], each[:at])


def test_a_hundred_thousand_tasks_take_little_memory_and_time() -> None:
    summary = EventLogSummary()
    summary.add(line("StageSubmitted", **{"Stage Info": stage(0, 100_000)}))
    one = next(each for each in RECORDED.read_bytes().splitlines() if b'"SparkListenerTaskEnd"' in each[:40])
    began = time.process_time()
    for _ in range(100_000):
        summary.add(one)
    assert summary.metrics(0).tasks_done == 100_000
    assert time.process_time() - began < 30
    assert len(summary._running) == 1


def write(folder: Path, number: int, content: bytes) -> Path:
    path = folder / "eventlog_v2_local-1" / f"events_{number}_local-1"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)
    return path


def test_files_are_read_as_they_grow_and_deleted_when_they_rolled(tmp_path: Path) -> None:
    source = EventLogFiles(tmp_path / "events", SettableClock(NOW))
    assert source.read() is None

    (tmp_path / "events").mkdir()
    submitted, done = line("StageSubmitted", **{"Stage Info": stage(0, 3)}), task(0)
    first = write(tmp_path / "events", 1, submitted + b"\n" + done[:50])
    assert source.read() == RunMetrics(stages=1, tasks=3)
    write(tmp_path / "events", 1, done[50:] + b"\n")
    found = source.read()
    assert found is not None
    assert found.tasks_done == 1

    second = write(tmp_path / "events", 2, done + b"\n")
    found = source.read()
    assert found is not None
    assert (found.tasks_done, first.exists(), second.exists()) == (2, False, True)
    assert source.read() == found
    source.close()
    assert not (tmp_path / "events").exists()


def test_one_call_reads_a_bounded_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log_files, "_AT_ONCE", 1000)
    monkeypatch.setattr(event_log_files, "_LONGEST_LINE", 5000)
    source = EventLogFiles(tmp_path, SettableClock(NOW))
    lines = [line("StageSubmitted", **{"Stage Info": stage(0, 50)}), *[task(0)] * 20, b"x" * 20_000, *[task(0)] * 20]
    write(tmp_path, 1, b"\n".join(lines) + b"\n")

    calls, found = 0, None
    while not calls or not source.is_finished():
        found = source.read()
        calls += 1

    assert found is not None
    assert found.tasks_done == 40
    assert calls > 20


def test_a_long_log_with_a_huge_line_and_a_torn_end_takes_little_memory(tmp_path: Path) -> None:
    source = EventLogFiles(tmp_path, SettableClock(NOW))
    lines = b"".join(each + b"\n" for each in [task(0)] * 1000)
    write(tmp_path, 1, line("StageSubmitted", **{"Stage Info": stage(0, 9_000)}) + b"\n" + lines)
    largest = line("JobStart", **{"Job ID": 1, "Stage Infos": [stage(n, 5) for n in range(5_000)]})
    write(tmp_path, 1, largest + b"\n" + b'{"Event":"SparkListenerJobStart","Stage Infos":[' + b"{}," * 17_000_000)
    write(tmp_path, 1, b"\n" + lines * 8 + task(0)[:100])

    tracemalloc.start()
    try:
        found = source.read()
        while not source.is_finished():
            found = source.read()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found is not None
    assert (found.tasks_done, found.stages) == (9_000, 5_000)
    assert most < 100_000_000


def test_files_that_are_kept_are_read_again_by_the_next_reader(tmp_path: Path) -> None:
    for number in 1, 2, 3:
        write(tmp_path / "events", number, line("StageSubmitted", **{"Stage Info": stage(number, 1)}) + b"\n")
    first, second = (EventLogFiles(tmp_path / "events", SettableClock(NOW), keep=True) for _ in range(2))

    assert first.read() == second.read() == RunMetrics(stages=3, tasks=3)
    second.close()
    assert not (tmp_path / "events").exists()


def test_links_to_the_log_of_another_run_are_not_followed(tmp_path: Path) -> None:
    there = write(tmp_path / "theirs", 1, line("StageSubmitted", **{"Stage Info": stage(0, 1)}) + b"\n")
    (tmp_path / "whole").symlink_to(tmp_path / "theirs")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "eventlog_v2_x").symlink_to(there.parent)
    (tmp_path / "file" / "eventlog_v2_x").mkdir(parents=True)
    (tmp_path / "file" / "eventlog_v2_x" / "events_1_x").symlink_to(there)

    for name in "whole", "part":
        source = EventLogFiles(tmp_path / name, SettableClock(NOW), keep=True)
        assert source.read() is None
        source.close()
    with pytest.raises(OSError, match="symbolic link"):
        EventLogFiles(tmp_path / "file", SettableClock(NOW), keep=True).read()
    assert there.exists()


def test_a_log_that_is_read_from_its_end_keeps_its_newest_files(tmp_path: Path) -> None:
    for number in range(8, 13):
        write(tmp_path, number, b"x")

    event_log_files.remove_older(tmp_path, newest=2)

    assert {each.name for each in tmp_path.glob("*/*")} == {"events_11_local-1", "events_12_local-1"}


def test_several_applications_of_a_run_are_added() -> None:
    one = RunMetrics(tasks=3, tasks_done=2, executors_peak=2, peak_memory_bytes=9, complete=True)
    two = RunMetrics(tasks=4, tasks_done=4, executors_peak=1, peak_memory_bytes=7)

    both = RunMetrics.combine([one, two])

    assert both == RunMetrics(tasks=7, tasks_done=6, executors_peak=2, peak_memory_bytes=9)
    assert stored_metrics(METRICS.write(both)) == both
    assert stored_metrics({"tasks": -1}) is None
    assert stored_metrics({"later": 1}) == RunMetrics()
    assert replace(both, complete=True) != both

"""The metrics of one session from the log of a server that has many, with tags as Spark 4.1 writes them."""

from __future__ import annotations

from pathlib import Path

from streamsched.spark.backends.connect.session import operation_tag, session_id
from streamsched.spark.metrics.session_log import SessionLog
from streamsched.testing.clock import SettableClock

from .test_event_log import NOW, line, stage, task, write

MINE = f"{operation_tag('mine')}89098bcc-10e0-46a1-b1f9-1495448ecfad"
THEIRS = f"{operation_tag('theirs')}0eef624c-f3ee-49d0-ba30-ba1fcf50ba7a"
#: Another session's program has added this tag to its jobs: `addTag(MINE)`.
LIES = f"SparkConnect_SessionTag_User_streamsched_Session_{session_id('theirs')}_Tag_{MINE}"


def job(number: int, tags: str, tasks: int, *, rows: int = 1) -> list[bytes]:
    """The events of a job of one stage."""
    properties = {"spark.job.tags": tags, "spark.job.description": f"Spark Connect - {MINE}"}
    info = {"Stage Info": stage(number, tasks), "Properties": properties}
    return [
        line("JobStart", **{"Job ID": number, "Stage Infos": [stage(number, tasks)], "Properties": properties}),
        line("StageSubmitted", **info),
        *[task(number, rows=rows)] * tasks,
        line("StageCompleted", **info),
        line("JobEnd", **{"Job ID": number}),
    ]


def test_only_jobs_of_the_session_count(tmp_path: Path) -> None:
    write(tmp_path, 1, b"\n".join([*job(0, MINE, 7), line("ExecutorAdded", **{"Executor ID": "driver"})]) + b"\nhal")
    source = SessionLog(tmp_path, operation_tag("mine"), SettableClock(NOW))
    mine, theirs = job(1, f"spark-session-x,{MINE},broadcast exchange", 2, rows=5), job(2, f"x,{THEIRS}", 50)
    mixed = [each for pair in zip(mine, theirs, strict=False) for each in pair]

    write(tmp_path, 1, b"f a line\n" + b"\n".join(mixed) + b"\n")
    found = source.read()
    assert found is not None
    assert (found.stages, found.tasks, found.tasks_done, found.input_rows) == (1, 2, 2, 10)
    assert (found.executors, found.executors_peak, found.executor_seconds) == (0, 0, 0)

    write(tmp_path, 2, b"\n".join([*job(3, LIES, 50), *job(4, MINE, 1)[:-1]]) + b"\n")
    source.note_end()
    found = source.read()
    assert found is not None
    assert (found.stages_done, found.tasks_done, found.complete) == (2, 3, False)  # its job goes on

    write(tmp_path, 2, line("JobEnd", **{"Job ID": 4}) + b"\n")
    found = source.read()
    assert found is not None
    assert found.complete
    source.close()
    assert len(list(tmp_path.glob("*/*"))) == 2  # the server's


def test_events_of_odd_shape_change_nothing(tmp_path: Path) -> None:
    source = SessionLog(tmp_path, operation_tag("mine"), SettableClock(NOW))
    odd = [
        line("JobStart", **{"Job ID": 1, "Stage Infos": [stage(1, 1)], "Properties": {"spark.job.tags": [MINE]}}),
        line("JobStart", **{"Job ID": 1, "Stage Infos": [stage(1, 1)], "Properties": MINE}),
        line("StageSubmitted", **{"Stage Info": None, "Properties": {"spark.job.tags": MINE}}),
        MINE.encode(),
    ]
    write(tmp_path, 1, b"\n".join([*odd, *job(4, MINE, 1), *odd, task(9), b'{"Event":"SparkListenerTaskEnd"}']) + b"\n")

    found = source.read()

    assert found is not None
    assert (found.stages, found.tasks, found.tasks_done) == (1, 1, 1)

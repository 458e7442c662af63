"""What a program reads about its run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamsched.codec.views import trigger_context as facts
from streamsched.domain.errors import ConfigurationError, DecodeError
from streamsched.domain.events.event import Event, Outcome, Partition, PartitionsAdded, ProgramReached, Ticked
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.submission_request import RerunRequest
from streamsched.spark.context import RUN_FILE, current_run

NOW = datetime(2013, 1, 8, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FLIGHTS, WEATHER = DatasetRef("default", "flights"), DatasetRef("default", "weather")
NIGHTLY = ScheduleRef("default", "air", "nightly")
LAND = ProgramRef("default", "air", "land")


def landed(dataset: DatasetRef, *keys: str) -> Event:
    partitions = tuple(Partition(key, dict([key.split("=")]), 10, 1) for key in keys)
    return Event("-".join(keys), f"/datasets/{dataset}", NOW, PartitionsAdded(dataset, partitions, len(keys)))


def reported(tmp_path: Path, **given: Any) -> dict[str, str]:
    """The environment of a program whose run file says `given`."""
    said = {"run": "default.air.nightly.1.1.r1", "program": "default.air.join", "arguments": {"a": "b"}, **given}
    (tmp_path / "run.json").write_bytes(orjson.dumps(said))
    return {RUN_FILE: str(tmp_path / "run.json")}


def test_a_run_knows_every_event_that_started_it(tmp_path: Path) -> None:
    both = landed(FLIGHTS, "day=3")
    reached = Event("r", "s", NOW, ProgramReached(LAND, "land.r1", Outcome.SUCCEEDED, {"weeks": "2"}, NOW))
    tick = Event("t", "s", NOW, Ticked(NIGHTLY, 1, "cron:0 0 * * *@UTC", NOW))
    leaves = (
        Contribution("a", 3, (landed(FLIGHTS, "day=1", "day=2"), both)),
        Contribution("b", 1, (landed(WEATHER, "day=1"),)),
        Contribution("c", 3, (both, reached, tick)),
    )
    ready = ReadyJob(NIGHTLY, 1, 1, NOW, leaves)

    run = current_run(reported(tmp_path, trigger=facts.native(ready), attempt=2))

    assert (run.job_id, run.attempt, run.arguments) == (ready.id, 2, {"a": "b"})
    assert run.contributions == leaves
    assert [p.key for p in run.new_partitions("flights")] == ["day=1", "day=2", "day=3"]
    assert [p.key for p in run.new_partitions("default.weather")] == ["day=1"]
    assert [fact.run_id for fact in run.programs()] == ["land.r1"]
    assert run.logical_start_time == NOW


def test_a_run_started_by_hand_has_no_contributions(tmp_path: Path) -> None:
    run = current_run(reported(tmp_path, trigger=None))

    assert (run.job_id, run.schedule, run.contributions, run.new_partitions("flights")) == (None, None, (), ())


@pytest.mark.parametrize("schedule", [NIGHTLY, None])
def test_a_submission_is_a_job_without_events_until_a_satisfaction_joins_it(
    tmp_path: Path, schedule: ScheduleRef | None
) -> None:
    submission = Submission("default.app.x.submitted-t", "ann")
    submitted = ReadyJob(schedule, 1, 0, NOW, (), submission=submission)
    joined = replace(submitted, contributions=(Contribution("a", 1, (landed(FLIGHTS, "day=1"),)),))

    alone, together = (current_run(reported(tmp_path, trigger=facts.native(each))) for each in (submitted, joined))

    assert (alone.job_id, alone.schedule, alone.submitted, alone.triggered) == (submission.job, schedule, True, False)
    assert (together.triggered, [p.key for p in together.new_partitions("flights")]) == (True, ["day=1"])


def test_a_rerun_has_the_partitions_of_the_first_run_and_is_triggered_as_it_was(tmp_path: Path) -> None:
    first = ReadyJob(NIGHTLY, 1, 1, NOW, (Contribution("a", 2, (landed(FLIGHTS, "day=1", "day=2"),)),), "monday")
    by_hand = ReadyJob(NIGHTLY, 1, 0, NOW, (), submission=Submission("default.app.x.submitted-t"))
    again, bare = (
        RerunRequest(each.id).satisfaction(each, f"{each.id}.r1", 1, generation=2, sequence=3, now=LATER)
        for each in (first, by_hand)
    )

    run, manual = (current_run(reported(tmp_path, trigger=facts.native(each))) for each in (again, bare))

    assert (run.job_id, run.key, run.triggered, run.submitted) == (again.id, "monday", True, False)
    assert [p.key for p in run.new_partitions("flights")] == ["day=1", "day=2"]
    assert (manual.triggered, manual.submitted) == (False, True)


def test_outside_a_run_the_error_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="not a run of streamsched"):
        current_run({})


def test_a_run_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        current_run({RUN_FILE: str(tmp_path / "nowhere.json")})


def test_a_damaged_run_file_names_the_field(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match=r"\$\.trigger\.job"):
        current_run(reported(tmp_path, trigger={"leaves": []}))


def test_what_runs_inside_a_job_imports_nothing_heavy() -> None:
    heavy = {"asyncpg", "faust", "starlette", "pyspark", "pandas", "pyarrow", "httpx", "structlog", "sqlalchemy"}
    modules = "streamsched.spark.pfs, streamsched.spark.context"
    code = f"import sys, {modules}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not heavy & set(found.stdout.split())

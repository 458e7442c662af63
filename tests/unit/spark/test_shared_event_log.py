"""Where drivers in clusters write their event logs: in one folder of the run, below the installation's."""

from __future__ import annotations

# ruff: noqa: ASYNC240  (small files, and no other task on this loop)
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.clock import SystemClock
from streamsched.setting_values import folder_of
from streamsched.spark.backends.cluster import driver_event_log, submission_of
from streamsched.spark.command import RunEnvironment
from streamsched.spark.metrics import event_log_settings
from streamsched.spark.metrics.event_log_settings import shared_event_log
from streamsched.spark.runner import Runner

from .test_needs_in_clusters import JOB, STANDALONE, assignment, files, site
from .test_runner_end import RUN, DeafBook

__all__ = ["files", "site"]


@pytest.mark.parametrize("run", ["../../etc", "a/b", "..", "", "x" * 300, "Ä\n\0", "default.app.x.1.1.r1"])
async def test_a_run_of_any_name_has_a_folder_of_its_own(run: str, site: RunEnvironment, tmp_path: Path) -> None:
    (shared := tmp_path / "shared").mkdir()
    here, given = replace(site, spark_event_logs=shared), replace(assignment(JOB), run=run)
    folder = await driver_event_log(given, JOB, here)

    assert folder is not None
    assert folder.parent == shared
    assert folder.is_dir()
    assert await driver_event_log(given, JOB, here) == folder
    assert await driver_event_log(replace(given, run=f"{run}2"), JOB, here) != folder


async def test_who_may_write_into_the_installations_folder_may_write_into_that_of_a_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    folder = await shared_event_log(tmp_path, "r1", JOB, submitted=False)
    assert folder is not None
    assert folder.stat().st_mode & 0o7777 == 0o1777


async def test_a_link_in_its_place_or_a_folder_that_cannot_be_made_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "r1").symlink_to(tmp_path / "theirs")

    assert await shared_event_log(tmp_path, "r1", JOB, submitted=False) is None
    assert await shared_event_log(tmp_path / "not mounted", "r1", JOB, submitted=False) is None
    assert await shared_event_log(None, "r1", JOB, submitted=False) is None


@pytest.mark.parametrize("master", [STANDALONE, "yarn", "k8s://https://api:6443"])
async def test_a_driver_writes_its_log_there_unless_it_has_one(
    master: str, site: RunEnvironment, files: object, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    job, here = replace(JOB, master=master), replace(site, spark_event_logs=shared)
    given = assignment(job)

    folder = await driver_event_log(given, job, here)

    assert folder is not None
    assert folder == shared / "r1"
    conf = submission_of(given, job, here, files, master, event_log=folder).conf  # type: ignore[arg-type]
    assert conf["spark.eventLog.dir"] == folder.as_uri()
    assert conf["spark.eventLog.enabled"] == "true"
    own: SparkJob = replace(job, conf={"spark.eventLog.dir": "hdfs://history"})
    assert await driver_event_log(assignment(own), own, here) is None
    assert await driver_event_log(given, job, site) is None
    assert await driver_event_log(given, job, replace(here, spark_metrics=False)) is None


async def test_a_folder_that_hangs_holds_up_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(event_log_settings, "_MAKING_S", 0.1)
    monkeypatch.setattr(Path, "mkdir", lambda *_: answer.wait(60))
    try:
        assert await shared_event_log(tmp_path, "r1", JOB, submitted=False) is None
    finally:
        answer.set()


async def test_of_a_driver_that_was_submitted_without_a_log_nothing_is_expected(
    site: RunEnvironment, tmp_path: Path
) -> None:
    here, known = replace(site, spark_event_logs=tmp_path), replace(assignment(JOB), driver=Driver("d", STANDALONE))

    assert await driver_event_log(known, JOB, here) is None
    (tmp_path / "r1").mkdir()
    assert await driver_event_log(known, JOB, here) == tmp_path / "r1"


def test_the_setting_is_a_folder_or_its_url() -> None:
    assert folder_of("/mnt/event logs") == folder_of("file:///mnt/event%20logs") == Path("/mnt/event logs")
    assert folder_of("") is None
    for text in "logs", "hdfs://a/b", "file://host/logs", "/", "file:///":
        with pytest.raises(InvalidDefinitionError, match="must be "):
            folder_of(text)


async def test_a_driver_that_cannot_be_submitted_leaves_no_folder(tmp_path: Path) -> None:
    (shared := tmp_path / "shared").mkdir()
    run_store = DeafBook()
    job = replace(JOB, main="/not/there.py", master="k8s://https://api:6443")
    run_store.program = replace(run_store.program, executable=job)
    here = RunEnvironment(
        data_dir=tmp_path, spark_master="local", emit_url="", environ=os.environ, spark_event_logs=shared
    )

    ending = await Runner(run_store, SystemClock(), here).execute(RUN)  # type: ignore[arg-type]

    assert ending is not None
    assert "/not/there.py does not exist" in ending.reason
    assert not list(shared.iterdir())

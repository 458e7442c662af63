"""The service file on a real YARN: what is killed comes back, and no job is lost; with more kills it is `make yarn`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.faults.yarn_roles import run
from tests.support.services import need_java, need_program


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_yarn_replaces_a_killed_worker_and_a_killed_launcher_and_each_job_is_done_once() -> None:
    need_java()
    for program, package in (("mvn", "maven"), ("javac", "openjdk-17-jdk-headless")):
        need_program(program, package)

    came = run(Path(tempfile.gettempdir()), kills=2, seed=1)

    print(came)  # noqa: T201 - for the report of a failed test
    assert came.well, (came, came.verdict.words)
    assert came.killed == ["worker", "launcher"]
    assert (came.containers, came.jobs) == (5, 60)

"""What programs need, as clusters and Spark Connect get it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.driver import Driver
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.spark.backends.backend import DriverSubmission
from streamsched.spark.backends.cluster import cluster_backend, cluster_master, submission_of
from streamsched.spark.backends.connect import program
from streamsched.spark.backends.connect.program import ConnectProgram
from streamsched.spark.backends.standalone import creation
from streamsched.spark.backends.submit_process import command_line
from streamsched.spark.command import RunEnvironment
from streamsched.spark.files import RunFiles
from streamsched.spark.warm.child import ProcessStarter

STANDALONE = "spark://there:7077"
NEEDS = SparkNeeds(
    py_files=("/a.zip",),
    packages=("g:a:1", "g:b:1"),
    jars=("/x.jar", "/y.jar"),
    files=("/b.txt",),
    archives=("/env.tar.gz#environment",),
    driver=DriverSize(cores=1, memory="1g"),
    executors=ExecutorSize(instances=2, cores=2, memory="2g"),
)
JOB = SparkJob("/join.py", conf={"spark.x": "1"}, uris=("/c.py", "/d.csv"), needs=NEEDS, deploy_mode=DeployMode.CLUSTER)


@pytest.fixture
def site(tmp_path: Path) -> RunEnvironment:
    return RunEnvironment(data_dir=tmp_path, spark_master="local", emit_url="", environ={"PATH": "/usr/bin:/bin"})


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    made = RunFiles(tmp_path, "r1")
    made.make_folders()
    made.run_file.write_text("{}")
    return made


def assignment(job: SparkJob) -> Assignment:
    return Assignment("r1", 1, Program(ProgramRef("default", "shop", "join"), job), {})


def submitted(master: str, site: RunEnvironment, files: RunFiles) -> DriverSubmission:
    return submission_of(assignment(JOB), JOB, site, files, master)


@pytest.mark.parametrize("master", [STANDALONE, "yarn", "k8s://https://api:6443"])
def test_driver_and_executors_in_a_cluster_have_the_context_of_the_run(
    master: str, site: RunEnvironment, files: RunFiles
) -> None:
    context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    inside = replace(site, environ={**site.environ, "TRACEPARENT": "of the launcher"})

    found = submission_of(replace(assignment(JOB), traceparent=context), JOB, inside, files, master)

    assert found.env["TRACEPARENT"] == context
    assert found.conf["spark.streamsched.traceparent"] == found.conf["spark.executorEnv.TRACEPARENT"] == context
    assert "TRACEPARENT" not in submission_of(assignment(JOB), JOB, inside, files, master).env


@pytest.mark.parametrize("master", [STANDALONE, "yarn", "k8s://https://api:6443"])
def test_a_cluster_gets_what_a_program_needs(master: str, site: RunEnvironment, files: RunFiles) -> None:
    found = submitted(master, site, files)

    assert found.importable == ("/c.py", "/a.zip")
    assert found.files == ("/d.csv", "/b.txt")
    assert found.conf == {
        "spark.driver.cores": "1",
        "spark.driver.memory": "1g",
        "spark.executor.instances": "2",
        "spark.executor.cores": "2",
        "spark.executor.memory": "2g",
        "spark.cores.max": "4",
        "spark.jars": "/x.jar,/y.jar",
        "spark.jars.packages": "g:a:1,g:b:1",
        "spark.archives": "/env.tar.gz#environment",
        "spark.x": "1",
    }
    assert found.env["PYSPARK_PYTHON"] == "./environment/bin/python"
    assert found.env.get("PYSPARK_DRIVER_PYTHON") == (sys.executable if master == STANDALONE else None)


@pytest.mark.parametrize("master", [STANDALONE, "yarn", "k8s://https://api:6443"])
def test_a_cluster_gets_the_class_of_a_jar(master: str, site: RunEnvironment, files: RunFiles) -> None:
    job = SparkJob("hdfs://x/join.jar", needs=SparkNeeds(main_class="com.acme.Join"), deploy_mode=DeployMode.CLUSTER)

    found = submission_of(assignment(job), job, site, files, master)

    line = creation(found)["appArgs"] if master == STANDALONE else command_line(Path("submit"), found, Path("p"))
    assert list(line)[-3:] == ["--class", "com.acme.Join", "hdfs://x/join.jar"]


def test_a_standalone_master_gets_the_size_of_the_driver(site: RunEnvironment, files: RunFiles) -> None:
    body = creation(submitted(STANDALONE, site, files))

    assert body["sparkProperties"]["spark.driver.memory"] == "1g"
    assert "spark.jars=/x.jar,/y.jar" in body["appArgs"]  # the driver's own spark-submit reads it


def test_a_file_that_is_not_there_is_named_before_an_upload(
    site: RunEnvironment, files: RunFiles, tmp_path: Path
) -> None:
    main = tmp_path / "join.py"
    main.touch()
    job = replace(JOB, main=str(main), master="k8s://https://api:6443", uris=())

    with pytest.raises(ConfigurationError, match=r"\$\.py_files\[0\]: no such file /a\.zip"):
        cluster_backend(assignment(job), job, site, files)
    cluster_backend(assignment(replace(job, master=STANDALONE)), replace(job, master=STANDALONE), site, files)


def test_a_driver_is_watched_where_it_was_submitted(site: RunEnvironment, files: RunFiles) -> None:
    moved = replace(JOB, master="k8s://https://other:6443")
    known = replace(assignment(moved), driver=Driver("driver-1", STANDALONE))

    assert cluster_master(known, moved, site) == STANDALONE
    assert cluster_master(assignment(moved), moved, site) == moved.master
    cluster_backend(known, moved, site, files)  # its files are not asked for


async def test_a_file_for_spark_connect_that_is_not_there_is_named(
    site: RunEnvironment, files: RunFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "release", lambda *_: None)  # a server that is there
    main = tmp_path / "join.py"
    main.touch()
    needs = SparkNeeds(py_files=(str(tmp_path / "none.zip"),))
    job = SparkJob(str(main), master="sc://there:15002", needs=needs, deploy_mode=DeployMode.CONNECT)

    child = ConnectProgram(assignment(job), job, site, files, ProcessStarter())

    assert await child.wait() == 1
    found = child.verdict(1)
    assert found is not None
    assert found[0] is RunState.FAILED
    assert "$.py_files[0]: no such file" in found[1]
    await child.close()

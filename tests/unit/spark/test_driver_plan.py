"""Which runs may have a prepared driver, and which of them the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.process.os_user import OsUser
from streamsched.spark.command import Command, RunEnvironment, command
from streamsched.spark.drivers.plan import DriverPlan

KEY = Secret.parse("env:KEY")
YIELDS = {"spark.dynamicAllocation.enabled": "true"}


@pytest.fixture
def site(tmp_path: Path) -> RunEnvironment:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    java.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    for name in ("main.py", "lib.zip", "a.jar", "requirements.txt"):
        (tmp_path / name).write_text("")
    environ = {"PATH": "/bin", "JAVA_HOME": str(tmp_path / "jdk")}
    return RunEnvironment(
        data_dir=tmp_path,
        spark_master="local[2]",
        emit_url="http://e",
        environ=environ,
        prepared_drivers=1,
        signing_key=b"k" * 32,
    )


def made(
    site: RunEnvironment, *, run: str = "a.r1", namespace: str = "default", trace: str = "", **job: Any
) -> Command:
    executable = SparkJob(str(site.data_dir / "main.py"), ("{day}",), **job)
    program = Program(ProgramRef(namespace, "app", "load"), executable)
    assignment = Assignment(run, 1, program, {"day": run}, traceparent=trace or None)
    return command(assignment, site, Path("/run.json"), {KEY: "canary"})


def plan(found: Command) -> DriverPlan:
    assert found.driver is not None, found.cold
    return found.driver


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"needs": SparkNeeds(secret_env={"X": KEY})}, "it is given secrets"),
        ({"needs": SparkNeeds(secret_conf={"spark.x": KEY})}, "it is given secrets"),
        ({"needs": SparkNeeds(requirements="{folder}/requirements.txt")}, "it has an environment of its own"),
        ({"needs": SparkNeeds(py_files=("{folder}/lib.zip",))}, "it brings Python files"),
        ({"conf": {"spark.pyspark.python": "/other/python"}}, "it has an environment of its own"),
        ({"conf": {"spark.eventLog.dir": "hdfs:///logs"}}, "it keeps an event log of its own"),
        (
            {"master": "yarn"},
            "its executors would be held while a driver waits: spark.dynamicAllocation.enabled is not true",
        ),
        (
            {"master": "spark://h:7077", "conf": {**YIELDS, "spark.dynamicAllocation.minExecutors": "1"}},
            "its executors would be held while a driver waits: spark.dynamicAllocation.minExecutors is not 0",
        ),
    ],
)
def test_a_run_starts_cold_and_says_why(site: RunEnvironment, job: dict[str, Any], why: str) -> None:
    needs = job.get("needs")
    if needs is not None:
        files = tuple(each.format(folder=site.data_dir) for each in needs.py_files)
        requirements = needs.requirements and needs.requirements.format(folder=site.data_dir)
        job = {"needs": replace(needs, py_files=files, requirements=requirements)}

    found = made(site, **job)

    assert (found.driver, found.cold) == (None, why)


def test_a_user_of_the_machine_and_a_launcher_without_drivers_are_reasons(site: RunEnvironment) -> None:
    user = OsUser.find("nobody")

    assert made(replace(site, user=user)).cold == "it runs as user nobody"
    assert made(replace(site, prepared_drivers=0)).cold == "STREAMSCHED_PREPARED_DRIVERS is 0"


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "local[4]"])
def test_a_cluster_that_takes_its_executors_back_may_have_one(site: RunEnvironment, master: str) -> None:
    assert "pyspark-shell" in plan(made(site, master=master, conf=YIELDS)).profile["submit"]


def test_runs_of_a_profile_have_the_same_and_none_of_what_is_a_runs_own(site: RunEnvironment) -> None:
    first, second = plan(made(site)), plan(made(site, run="b.r1", trace="00-ab-cd-01"))

    assert first.key == second.key
    text = orjson.dumps(first.profile).decode()
    for own in ("a.r1", "STREAMSCHED_", "eventLog", "run.json"):
        assert own not in text
    assert first.run["env"]["STREAMSCHED_TOKEN"]
    assert first.run["program"][1] == "a.r1"
    assert second.run["properties"]["spark.app.name"] == "b.r1"
    assert second.run["properties"]["spark.streamsched.traceparent"] == "00-ab-cd-01"
    assert first.run["event_log"]["spark.eventLog.enabled"] == "true"


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "shop"},
        {"master": "local[3]"},
        {"conf": {"spark.driver.memory": "2g"}},
        {"env": {"LEVEL": "high"}},
        {"folder": "/elsewhere"},
    ],
)
def test_another_namespace_setting_or_environment_is_another_profile(
    site: RunEnvironment, other: dict[str, Any]
) -> None:
    assert plan(made(site, **other)).key != plan(made(site)).key


def test_a_changed_file_is_no_other_profile_but_is_noticed(site: RunEnvironment) -> None:
    needs = SparkNeeds(jars=(f"{site.data_dir}/a.jar",))
    before = plan(made(site, needs=needs))
    (site.data_dir / "a.jar").write_text("new")
    after = plan(made(site, needs=needs))

    assert before.key == after.key
    assert before.profile["files"] != after.profile["files"]

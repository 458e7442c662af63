"""What a program executes on launchers: every kind of program, every field of a Spark program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.access.execution import CLASSES, READERS, FieldReader, ProgramProfile, executions
from streamsched.domain.access.grant import Caller, Denied, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.names import DatasetRef, EventName, ProgramRef
from streamsched.domain.programs.output import ProgramOutput
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.schedule import EnqueueJob, Executable, HttpJob, Program, PublishJob

STANDALONE, YARN, KUBERNETES = "spark://m:7077", "yarn", "k8s://https://api:6443"
DIGEST = "a" * 64
REMOTE = SparkJob("hdfs://lake/x.py", master=YARN, deploy_mode=DeployMode.CLUSTER)
#: For each field a value that names something of the launcher's machine, if the field can.
OF_LAUNCHER: Final[Mapping[str, Any]] = {
    "main": "/etc/x.py",
    "conf": {"spark.submit.pyFiles": "/etc/x.py"},
    "module": "tasks.flow",
    "folder": "/srv",
    "env_from_os": ("HOME",),
    "uris": ("/etc/passwd",),
    "py_files": ("file:///etc/x.py",),
    "packages": ("a:b:1",),
    "jars": ("https://evil.example/x.jar",),
    "files": ("/etc/passwd",),
    "archives": ("/etc/x.tar#x",),
    "requirements": "/etc/requirements.txt",
    "secret_conf": {"spark.a": Secret("env", "A")},
    "secret_env": {"A": Secret("env", "A")},
}
#: For the other fields a value that only driver and executors see.
OF_CLUSTER: Final[Mapping[str, Any]] = {
    "arguments": ("--packages", "a:b:1"),
    "master": YARN,
    "env": {"LD_PRELOAD": "/x.so"},
    "needs": SparkNeeds(),
    "deploy_mode": DeployMode.CLUSTER,
    "profile": "big",
    "driver": DriverSize(2, "2g"),
    "executors": ExecutorSize(2, 2, "2g"),
    "main_class": "com.acme.Join",
    "bundle": DIGEST,
}


def found(executable: Executable, profile: ProgramProfile | None = None, *, apart: bool = False) -> list[str]:
    """The paths of what it executes."""
    program = Program(ProgramRef("sales", "shop", "p"), executable)
    return [each.path for each in executions(program, profile, apart=apart)]


def with_field(job: SparkJob, name: str, value: Any) -> SparkJob:
    if name in {each.name for each in fields(SparkNeeds)}:
        return replace(job, needs=replace(job.needs, **{name: value}))
    extra = {"main": ""} if name == "module" else {"module": "m", "main": ""} if name == "env_from_os" else {}
    return replace(job, **extra, **{name: value})


def test_every_field_of_a_spark_program_says_who_reads_it() -> None:
    named = {each.name for kind in CLASSES for each in fields(kind)}
    assert named == set(READERS)
    assert set(OF_LAUNCHER) | set(OF_CLUSTER) == named
    assert {name for name in OF_CLUSTER if READERS[name] is not FieldReader.REMOTE} == set()


@pytest.mark.parametrize("name", sorted(OF_LAUNCHER))
@pytest.mark.parametrize("master", [YARN, KUBERNETES, None])
def test_a_field_that_names_something_of_the_launchers_machine_needs_shell(name: str, master: str | None) -> None:
    job = replace(REMOTE, master=master)
    assert found(job) == []
    paths = found(with_field(job, name, OF_LAUNCHER[name]))
    assert paths, name
    assert all(path.startswith((f"$.{name}", "$.module")) for path in paths)


@pytest.mark.parametrize("name", sorted(OF_CLUSTER))
def test_a_field_that_only_driver_and_executors_read_does_not(name: str) -> None:
    assert found(with_field(REMOTE, name, OF_CLUSTER[name])) == []


@pytest.mark.parametrize(
    ("executable", "path"),
    [
        (BashJob("true"), "$.command"),
        (PythonJob("os:getcwd"), "$.target"),
        (SparkJob("x.py"), "$.deploy_mode"),
        (SparkJob("hdfs://lake/x.py", master=STANDALONE), "$.deploy_mode"),
        (SparkJob("https://h/x.py"), "$.deploy_mode"),
        (SparkJob("", module="tasks.flow"), "$.deploy_mode"),
        (SparkJob("x.py", needs=SparkNeeds(bundle=DIGEST)), "$.deploy_mode"),
        (SparkJob("x.py", deploy_mode=DeployMode.CONNECT), "$.deploy_mode"),
    ],
)
def test_what_starts_a_process_beside_the_launcher_needs_shell(executable: Executable, path: str) -> None:
    assert found(executable) == [path]


@pytest.mark.parametrize(("location", "apart", "path"), [("", False, []), ("s3://l/d", True, []), ("/d", False, [0])])
def test_a_place_of_an_output_is_written_by_launchers_and_needs_shell(
    location: str, apart: bool, path: list[int]
) -> None:
    output = ProgramOutput(DatasetRef("sales", "daily"), location=location)
    program = Program(ProgramRef("sales", "shop", "p"), REMOTE, {}, (output,))

    found = [each.path for each in executions(program, apart=apart)]

    assert found == [f"$.outputs[{index}].location" for index in path]


def test_connect_needs_none_where_programs_run_as_another_user() -> None:
    assert found(SparkJob("x.py", deploy_mode=DeployMode.CONNECT), apart=True) == []
    assert found(SparkJob("x.py"), apart=True) == ["$.deploy_mode"]


@pytest.mark.parametrize(
    "executable",
    [HttpJob("https://h/x"), PublishJob(EventName("sales", "ready")), EnqueueJob("mail"), REMOTE],
)
def test_what_launchers_do_themselves_needs_none(executable: Executable) -> None:
    assert found(executable) == []


def test_a_standalone_cluster_reads_everything_where_its_workers_are() -> None:
    conf = {"spark.jars.ivy": "/x", "spark.hadoop.x": "${env:HOME}", "spark.master.rest.port": "6067"}
    needs = SparkNeeds(packages=("a:b:1",), jars=("/opt/x.jar",))
    job = SparkJob("/opt/x.py", master=STANDALONE, conf=conf, needs=needs, deploy_mode=DeployMode.CLUSTER)
    assert found(job) == []
    for port in ("6066@169.254.169.254", "80/latest", ""):
        assert found(replace(job, conf={"spark.master.rest.port": port})) == ['$.conf["spark.master.rest.port"]']
    other = SparkJob("/opt/x.py", deploy_mode=DeployMode.CLUSTER)
    assert found(other) == ["$.main"]  # without a master of its own the cluster may become another


@pytest.mark.parametrize(
    "name",
    [
        *("spark.jars", "spark.jars.packages", "spark.jars.ivy", "spark.jars.ivySettings", "spark.jars.repositories"),
        *("spark.files", "spark.archives", "spark.submit.pyFiles", "spark.yarn.dist.files", "spark.yarn.keytab"),
        *("spark.kerberos.keytab", "spark.kerberos.principal", "spark.hadoop.net.topology.script.file.name"),
        *("spark.kubernetes.driver.podTemplateFile", "spark.kubernetes.authenticate.submission.oauthTokenFile"),
        *("spark.kubernetes.namespace", "spark.kubernetes.file.upload.path", "spark.yarn.stagingDir"),
        *("spark.yarn.tags", "spark.launcher.x", "spark.driverx", "spark.sql", "notspark.sql.x", "spark.sql.a b"),
        *("spark.kubernetes.driver.volumes.hostPath.x.mount.path", "spark.sql.x\nspark.jars", "spark.master"),
    ],
)
def test_settings_that_the_submitter_may_read_need_shell(name: str) -> None:
    for master in (YARN, KUBERNETES, None):
        assert found(replace(REMOTE, master=master, conf={name: "x"})) == [f'$.conf["{name}"]']


@given(
    st.sampled_from(["spark.sql.shuffle.partitions", "spark.yarn.queue", "spark.driver.extraJavaOptions"]),
    st.text(max_size=20),
    st.sampled_from([YARN, KUBERNETES, None]),
)
def test_values_that_spark_submit_replaces_need_shell(name: str, value: str, master: str | None) -> None:
    job = replace(REMOTE, master=master)
    assert bool(found(replace(job, conf={name: value}))) == ("${" in value)
    assert found(replace(job, conf={name: f"{value}${{env:PGPASSWORD}}"})) == [f'$.conf["{name}"]']


@pytest.mark.parametrize(
    "name",
    [
        "x.py,/etc/passwd",  # spark-submit divides lists at commas
        "%2e%2e/%2e%2e/token#x",  # and decodes the path of a URI with a fragment
        "x[.py",
        "*.py",
        "a b.py",
    ],
)
def test_files_of_a_bundle_stay_in_it_however_spark_submit_reads_their_names(name: str) -> None:
    bundled = SparkNeeds(bundle=DIGEST)
    assert found(replace(REMOTE, main="a/x.py", needs=bundled)) == []
    assert found(replace(REMOTE, main="é_1.py", needs=bundled)) == []
    assert found(replace(REMOTE, main=name, needs=bundled)) == ["$.main"]


@pytest.mark.parametrize("main", ["--conf=spark.jars.packages=a://b", "hdfs://h/x.py,/etc/passwd", "-x", "local:/x.py"])
def test_a_main_is_no_option_and_no_list(main: str) -> None:
    assert found(replace(REMOTE, main=main)) == ["$.main"]


def test_files_of_an_image_are_not_the_launchers() -> None:
    image = replace(REMOTE, main="local:///opt/x.py")
    assert found(replace(image, master=KUBERNETES)) == []
    assert found(image) == ["$.main"]


def test_a_profile_set_without_shell_is_for_cluster_mode_and_its_settings_are_judged() -> None:
    profile = SparkProfile("big", conf={"spark.jars.packages": "a:b:1"})
    assert found(REMOTE, ProgramProfile(profile, trusted=True)) == []
    assert found(REMOTE, ProgramProfile(profile, trusted=False)) == ["$.profile"]
    harmless = SparkProfile("big", conf={"spark.sql.shuffle.partitions": "4"})
    assert found(REMOTE, ProgramProfile(harmless, trusted=False)) == []
    moved = SparkProfile("big", conf={"spark.jars.packages": "a:b:1"}, master=STANDALONE)
    assert found(replace(REMOTE, master=None), ProgramProfile(moved, trusted=False)) == []


@pytest.mark.parametrize(("shell", "role"), [(False, AccessRole.DEVELOPER), (True, AccessRole.OPERATOR)])
def test_the_reason_says_what_is_missing(shell: bool, role: AccessRole) -> None:
    verdict = Caller("token:ci", (Grant(role=role, namespace="sales", shell=shell),)).may_execute("sales", "program x")
    assert isinstance(verdict, Denied)
    assert "may not deploy program x" in verdict.reason
    assert "no `shell`" in verdict.reason

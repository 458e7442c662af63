"""What a program needs becomes options, settings and files; secrets are in none that others can read."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.secret_rules import parse_rules
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.schedules.process_job import PythonJob, SparkJob, check_spark_deployment
from streamsched.domain.schedules.schedule import Executable, Program
from streamsched.ports.runs import Assignment
from streamsched.process.os_user import OsUser
from streamsched.secrets.redaction import Redaction
from streamsched.secrets.resolver import Secrets
from streamsched.spark import guard as guard_module
from streamsched.spark.command import RunEnvironment, command
from streamsched.spark.needs.log_output import LogOutput
from streamsched.spark.needs.options import with_profile
from streamsched.spark.needs.private_conf import properties, write_private
from tests.support.os_users import folder_of, os_users

KEY = Secret.parse("env:KEY")


def assignment(executable: Executable) -> Assignment:
    return Assignment("job.r1", 1, Program(ProgramRef("default", "app", "load"), executable), {})


@pytest.fixture
def site(tmp_path: Path) -> RunEnvironment:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    java.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    environ = {"PATH": "/bin", "JAVA_HOME": str(tmp_path / "jdk")}
    return RunEnvironment(data_dir=tmp_path, spark_master="local[2]", emit_url="http://e", environ=environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("main.py", "lib.zip", "a.jar", "words.txt", "env.tar.gz", "requirements.txt"):
        (tmp_path / name).write_text("")
    return tmp_path


def test_the_needs_of_a_spark_program_are_options(site: RunEnvironment, folder: Path) -> None:
    needs = SparkNeeds(
        py_files=(f"{folder}/lib.zip",),
        jars=(f"{folder}/a.jar",),
        files=(f"{folder}/words.txt",),
        archives=(f"{folder}/env.tar.gz#environment",),
        packages=("org.x:y:1",),
        driver=DriverSize(2, "1g"),
        executors=ExecutorSize(2, 3, "2g"),
    )
    job = SparkJob(f"{folder}/main.py", master="spark://h:7077", uris=(f"{folder}/words.txt",), needs=needs)

    made = command(assignment(job), site, Path("/run.json"))

    text = " ".join(made.argv)
    for option in (
        f"--py-files {folder}/lib.zip",
        f"--jars {folder}/a.jar",
        f"--files {folder}/words.txt,{folder}/words.txt",
        f"--archives {folder}/env.tar.gz#environment",
        "--packages org.x:y:1",
        "--conf spark.driver.memory=1g",
        "--conf spark.executor.memory=2g",
        "--conf spark.cores.max=6",
    ):
        assert option in text
    assert made.env["PYSPARK_PYTHON"] == "./environment/bin/python"
    assert made.env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert made.private is None


def test_a_jar_has_its_class_before_it(site: RunEnvironment, folder: Path) -> None:
    job = SparkJob(f"{folder}/a.jar", ("one",), needs=SparkNeeds(main_class="com.acme.Join$Main"))

    made = command(assignment(job), site, Path("/run.json"))

    assert made.argv[-4:-1] == ("--class", "com.acme.Join$Main", f"{folder}/a.jar")
    assert made.cold == "STREAMSCHED_PREPARED_DRIVERS is 0"
    prepared = command(assignment(job), replace(site, prepared_drivers=1), Path("/run.json"))
    assert prepared.cold == "its main file is a jar"


@pytest.mark.parametrize("name", ["com.acme.Join; rm", "--conf", "a..b", "1a", "a b", "x" * 256, ".a", "ünder"])
def test_what_is_no_name_of_a_class_is_refused(name: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=r"\$\.main_class: must be the name of a class"):
        SparkNeeds(main_class=name)


def test_a_class_is_of_a_main_file_that_spark_submit_starts() -> None:
    needs = SparkNeeds(main_class="com.acme.Join")
    with pytest.raises(InvalidDefinitionError, match=r"\$\.main_class: is of a main that is a jar, but pymodule"):
        SparkJob("", module="tasks.join", needs=needs)
    job = SparkJob("join.jar", needs=needs, deploy_mode=DeployMode.CONNECT)
    with pytest.raises(InvalidDefinitionError, match=r"main_class: cannot be given with deploy_mode connect"):
        check_spark_deployment(job, "$")


def test_an_unpacked_environment_needs_a_cluster(site: RunEnvironment, folder: Path) -> None:
    job = SparkJob(f"{folder}/main.py", needs=SparkNeeds(archives=(f"{folder}/env.tar.gz#environment",)))

    with pytest.raises(ConfigurationError, match=r"master is local\[2\]"):
        command(assignment(job), site, Path("/run.json"))


def test_a_missing_file_is_named_with_its_field(site: RunEnvironment, folder: Path) -> None:
    job = SparkJob(f"{folder}/main.py", needs=SparkNeeds(jars=(f"{folder}/gone.jar",)))

    with pytest.raises(ConfigurationError, match=r"\$\.jars\[0\]: no such file .*gone\.jar"):
        command(assignment(job), site, Path("/run.json"))


def test_a_requirements_file_is_installed_before_the_submission(site: RunEnvironment, folder: Path) -> None:
    job = SparkJob(f"{folder}/main.py", needs=SparkNeeds(requirements=f"{folder}/requirements.txt"))

    made = command(assignment(job), site, Path("/run.json"))

    expected = (sys.executable, "-m", "streamsched.spark.calls.with_environment", str(folder / "environments"))
    assert made.argv[:4] == expected
    assert made.argv[5].endswith("spark-submit")


def test_secrets_are_in_a_file_and_the_environment_never_in_argv(site: RunEnvironment, folder: Path) -> None:
    needs = SparkNeeds(secret_conf={"spark.shop.key": KEY}, secret_env={"SHOP_KEY": KEY})
    job = SparkJob(f"{folder}/main.py", needs=needs)

    made = command(assignment(job), site, Path("/run.json"), {KEY: "canary é"})

    assert made.private is not None
    path, content = made.private
    assert "canary" not in " ".join(made.argv)
    assert f"--properties-file {path}" in " ".join(made.argv)
    assert b"canary\\u0020\\u00e9" in content
    assert b"spark.executorEnv.SHOP_KEY" in content
    assert made.env["SHOP_KEY"] == "canary é"
    redaction = next(each for each in made.argv if each.startswith("spark.redaction.regex"))
    assert r"spark\.shop\.key" in redaction
    assert "canary" not in repr(made)
    write_private(folder / "x.conf", content)
    assert (folder / "x.conf").stat().st_mode & 0o777 == 0o600


def test_a_python_program_with_secrets_starts_cold(site: RunEnvironment) -> None:
    made = command(assignment(PythonJob("a:b", secret_env={"K": KEY})), site, Path("/run.json"), {KEY: "canary"})

    assert made.env["K"] == "canary"
    assert made.cold
    with pytest.raises(ConfigurationError, match="env:KEY"):
        command(assignment(PythonJob("a:b", secret_env={"K": KEY})), site, Path("/run.json"))


def test_the_defaults_of_the_installation_stay_beside_secrets(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.a 1")

    content = properties({"spark.b": "2"}, {"SPARK_CONF_DIR": str(tmp_path)}, Path("/nowhere")).decode()

    assert content == "spark.a 1\nspark.b 2\n"


def test_the_defaults_that_a_definition_names_are_read_as_the_user_of_the_run() -> None:
    with (
        os_users("reader") as (found,),
        folder_of(pwd.getpwuid(os.geteuid()), {"spark-defaults.conf": "a 1"}) as folder,
    ):
        folder.chmod(0o755)
        reader, environ = OsUser.find(found.pw_name), {"SPARK_CONF_DIR": str(folder)}
        for mode, content in ((0o600, b"\nspark.b 2\n"), (0o644, b"a 1\nspark.b 2\n")):
            (folder / "spark-defaults.conf").chmod(mode)
            assert properties({"spark.b": "2"}, environ, Path("/nowhere"), reader) == content


def test_defaults_without_an_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").symlink_to("/dev/zero")

    with pytest.raises(ConfigurationError, match="more than 1048576 bytes"):
        properties({}, {"SPARK_CONF_DIR": str(tmp_path)}, Path("/nowhere"))


def test_the_programs_own_settings_override_its_profile() -> None:
    profile = SparkProfile(
        "big",
        "spark://p:7077",
        {"spark.a": "profile", "spark.b": "profile", "spark.executor.cores": "9"},
        {"spark.c": KEY, "spark.d": KEY},
        DriverSize(memory="9g"),
    )
    needs = SparkNeeds(executors=ExecutorSize(cores=1), secret_conf={"spark.b": KEY})
    job = SparkJob("m.py", conf={"spark.a": "own", "spark.c": "own"}, needs=needs)

    found = with_profile(job, profile)

    assert found.master == "spark://p:7077"
    assert found.conf == {"spark.a": "own", "spark.c": "own", "spark.driver.memory": "9g"}
    assert found.needs.secret_conf == {"spark.b": KEY, "spark.d": KEY}
    assert with_profile(SparkJob("m.py", master="local"), profile).master == "local"
    assert with_profile(job, None) is job


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "plain").write_text("from-file\n")
    (tmp_path / "in" / "json").write_text('{"a": "from-json", "n": 1}')
    (tmp_path / "in" / "big").write_text("x" * 70_000)
    (tmp_path / "out").write_text("outside")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    rules = parse_rules(f"default=env:KEY,default=env:SHORT,default=env:UNSET,default=file:{tmp_path}/in/,*=vault:*")

    def vault(name: str) -> str:
        if name == "bad":
            raise ValueError("canary in the message")
        return f"from-vault-{name}"

    return Secrets(rules, {"KEY": "from-env", "SHORT": "abc"}, {"vault": lambda: vault})


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("env:KEY", "from-env"),
        ("file:{}/in/plain", "from-file"),
        ("file:{}/in/json#a", "from-json"),
        ("vault:x", "from-vault-x"),
    ],
)
async def test_each_provider_reads_its_secrets(secrets: Secrets, tmp_path: Path, reference: str, value: str) -> None:
    secret = Secret.parse(reference.format(tmp_path))

    assert await secrets.read("default", {secret: "$.env.A"}) == {secret: value}


@pytest.mark.parametrize(
    ("namespace", "reference", "why"),
    [
        ("other", "env:KEY", "may not be used in namespace other"),
        ("default", "env:HOME", "may not be used"),
        ("default", "env:UNSET", "is not set"),
        ("default", "env:SHORT", "fewer than 4"),
        ("default", "file:{}/in/gone", "cannot be read: No such file"),
        ("default", "file:{}/in/link", "link out of the permitted folder"),
        ("default", "file:{}/in/big", "more than"),
        ("default", "file:{}/in/plain#a", "not JSON"),
        ("default", "file:{}/in/json#b", "no JSON object with this key"),
        ("default", "file:{}/in/json#n", "is not a text"),
        ("default", "vault:bad", "its provider failed with ValueError"),
        ("default", "nowhere:x", "may not be used"),
    ],
)
async def test_a_secret_that_cannot_be_had_is_named(
    secrets: Secrets, tmp_path: Path, namespace: str, reference: str, why: str
) -> None:
    secret = Secret.parse(reference.format(tmp_path))

    with pytest.raises(ConfigurationError) as refused:
        await secrets.read(namespace, {secret: "$.env.A"})

    assert str(refused.value).startswith("$.env.A: ")
    assert secret.reference in str(refused.value)
    assert why in str(refused.value)
    assert "canary" not in str(refused.value)


def test_the_file_with_secrets_goes_when_the_runner_is_killed(tmp_path: Path) -> None:
    (tmp_path / "run.conf").write_text("spark.shop.key canary")
    program = subprocess.Popen(["sleep", "600"], start_new_session=True)
    guard = subprocess.Popen(
        [sys.executable, str(guard_module.__file__), str(tmp_path / "run.conf")], stdin=subprocess.PIPE
    )
    guard.communicate(f"{program.pid}\n".encode())  # its end closes the pipe, as that of a runner does

    assert program.wait() == -signal.SIGKILL
    assert not (tmp_path / "run.conf").exists()


async def test_the_log_of_a_run_has_no_secret_however_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    output = LogOutput(log, Redaction(["canary-value"]))
    for part in (b"a canary-", b"value b\n", b"canary-valu"):
        os.write(output.fileno(), part)
        await asyncio.sleep(0)
    await output.close()

    assert log.read_bytes() == b"a [secret] b\ncanary-valu"


async def test_the_log_of_a_run_without_secrets_is_written_directly(tmp_path: Path) -> None:
    output = LogOutput(tmp_path / "run.log", Redaction())
    os.write(output.fileno(), b"x")
    assert not output.is_copied
    assert (tmp_path / "run.log").read_bytes() == b"x"
    await output.close()

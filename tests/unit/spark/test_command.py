"""What is refused before a process is started, and what a program finds in its environment."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import BashJob, Executable, Program, SparkJob
from streamsched.domain.schedules.template import fill_template
from streamsched.ports.runs import Assignment
from streamsched.spark.command import Command, RunEnvironment, command
from streamsched.spark.drivers.java import find_java

REF = ProgramRef("default", "app", "load")


def assignment(executable: Executable, **arguments: str) -> Assignment:
    return Assignment("job.r1", 1, Program(REF, executable), arguments)


@pytest.fixture
def site(tmp_path: Path) -> RunEnvironment:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    java.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    environ = {
        "PATH": "/bin",
        "JAVA_HOME": str(tmp_path / "jdk"),
        "STREAMSCHED_DATABASE_URL": "postgresql://u:secret@h/d",
    }
    return RunEnvironment(data_dir=tmp_path, spark_master="local[2]", emit_url="http://e", environ=environ)


def test_a_shell_command_finds_its_run_and_arguments_in_the_environment(site: RunEnvironment) -> None:
    made = command(assignment(BashJob("x"), **{"trigger.job": "j", "a": "1"}), site, Path("/run.json"))

    assert made.argv[1:] == ("-c", "x")
    assert made.env["STREAMSCHED_ARG_TRIGGER_JOB"] == "j"
    assert made.env["STREAMSCHED_RUN_FILE"] == "/run.json"
    assert made.env["STREAMSCHED_EMIT_URL"] == "http://e"
    assert made.env["STREAMSCHED_NAMESPACE"] == "default"
    assert "STREAMSCHED_DATABASE_URL" not in made.env


def test_a_spark_program_is_submitted_in_client_mode_under_the_runs_name(site: RunEnvironment, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text("")
    job = SparkJob(str(main), ("--day", "{day}"), conf={"spark.ui.enabled": "true"})

    made = command(assignment(job, day="7"), site, Path("/run.json"))

    text = " ".join(made.argv)
    assert "--master local[2] --deploy-mode client --name job.r1" in text
    assert text.endswith(f"{main} --day 7")
    assert "spark.ui.enabled=true" in text
    assert "spark.ui.enabled=false" not in text
    assert made.env["PYSPARK_PYTHON"] == sys.executable


def test_an_event_log_is_written_for_metrics_unless_there_is_one(site: RunEnvironment, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text("")
    spark_conf = tmp_path / "conf"
    spark_conf.mkdir()
    (spark_conf / "spark-defaults.conf").write_text("# none\nspark.eventLog.dir s3a://history\n")
    of_the_site = replace(site, environ={**site.environ, "SPARK_CONF_DIR": str(spark_conf)})

    def made(site: RunEnvironment, **conf: str) -> Command:
        return command(assignment(SparkJob(str(main), conf=conf)), site, Path("/run.json"))

    measured, expected = made(site), tmp_path / "runs" / "job.r1.events"
    assert measured.event_log == expected
    assert f"spark.eventLog.dir={expected.as_uri()}" in measured.argv
    for other in (
        made(site, **{"spark.eventLog.enabled": "false"}),
        made(of_the_site),
        made(replace(site, spark_metrics=False)),
    ):
        assert other.event_log is None
        assert not any("spark.eventLog.dir" in each for each in other.argv)


def test_a_variable_that_programs_do_not_get_is_not_passed_on_to_executors(site: RunEnvironment) -> None:
    job = SparkJob("", module="json.tool", env_from_os=("TOKEN",))
    withheld = replace(site, environ={**site.environ}, withheld=("TOKEN",))
    there = replace(site, environ={**site.environ, "TOKEN": "x"})

    with pytest.raises(ConfigurationError, match="programs do not get variable TOKEN of env_from_os: STREAMSCHED_PROG"):
        command(assignment(job), withheld, Path("/run.json"))
    with pytest.raises(ConfigurationError, match="variable TOKEN of env_from_os is not set where the launcher runs"):
        command(assignment(job), site, Path("/run.json"))
    assert command(assignment(job), there, Path("/run.json")).env["STREAMSCHED_EXECUTOR_ENV"] == "TOKEN"


def test_the_programs_own_master_wins(site: RunEnvironment, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text("")

    made = command(assignment(SparkJob(str(main), master="spark://s:7077")), site, Path("/run.json"))

    assert "spark://s:7077" in made.argv
    assert "SPARK_LOCAL_IP" not in made.env


def test_a_main_file_that_is_not_there_is_refused_before_it_costs_a_jvm(site: RunEnvironment, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"main file {tmp_path}/gone.py does not exist"):
        command(assignment(SparkJob(f"{tmp_path}/gone.py")), site, Path("/run.json"))


@pytest.mark.parametrize("main", ["s3a://jobs/{day}/join.py", "http://jobs/{day}/join.py"])
def test_a_main_file_with_a_url_is_fetched_by_spark_submit(site: RunEnvironment, main: str) -> None:
    made = command(assignment(SparkJob(main, ("--x",)), day="7"), site, Path("/run.json"))

    assert made.argv[-2:] == (main.format(day="7"), "--x")


@pytest.mark.parametrize("value", ["../evil/x", "/etc/x", "..", "a/b", "a\\b", "%2e%2e", "a,b", "", "-x", "a\n", "{x}"])
def test_an_argument_names_no_file_elsewhere_in_a_program_stored_before(
    site: RunEnvironment, tmp_path: Path, value: str
) -> None:
    (tmp_path / "prog").mkdir()
    (tmp_path / "evil").mkdir()
    for each in ("prog/load.py", "evil/x.py"):
        (tmp_path / each).write_text("")
    job = SparkJob(f"{tmp_path}/prog/{{job}}.py")

    assert command(assignment(job, job="load"), site, Path("/run.json")).argv[-1] == f"{tmp_path}/prog/load.py"
    with pytest.raises(ConfigurationError, match="names of files are not chosen by the arguments of a run"):
        command(assignment(job, job=value), site, Path("/run.json"))


def test_an_argument_gives_a_module_no_option(site: RunEnvironment) -> None:
    job = SparkJob("", ("{day}", "--day", "{day}"), module="tasks.flow")

    assert command(assignment(job, day="-1"), site, Path("/run.json")).argv[-3:] == ("-1", "--day", "-1")
    with pytest.raises(ConfigurationError, match="begins an option"):
        command(assignment(job, day="--spark_env=LD_PRELOAD=/x.so"), site, Path("/run.json"))


def test_what_is_no_placeholder_is_left_as_it_is() -> None:
    assert fill_template('{"a": 1} {day} {}', {"day": "7"}) == '{"a": 1} 7 {}'


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(ConfigurationError, match="argument 'day'"):
        fill_template("{day}", {})


def test_an_old_java_is_named_with_its_version(site: RunEnvironment, tmp_path: Path) -> None:
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="1.8.0_392"\n')

    with pytest.raises(ConfigurationError, match=r"Java 17 or newer is needed: .* is Java 8"):
        find_java(site.environ)


def test_no_java_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no java in PATH"):
        find_java({"PATH": str(tmp_path)})


CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_run_has_its_own_context_and_not_that_of_its_launcher(site: RunEnvironment, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text("")
    inside = replace(site, environ={**site.environ, "TRACEPARENT": CONTEXT.replace("4", "5"), "TRACESTATE": "a=b"})
    spark = replace(assignment(SparkJob(str(main))), traceparent=CONTEXT)

    without = command(assignment(BashJob("x")), inside, Path("/run.json"))
    shell = command(replace(assignment(BashJob("x")), traceparent=CONTEXT), inside, Path("/run.json"))
    submitted = command(spark, inside, Path("/run.json"))

    assert without.env.keys().isdisjoint({"TRACEPARENT", "TRACESTATE"})
    assert shell.env["TRACEPARENT"] == submitted.env["TRACEPARENT"] == CONTEXT
    assert f"spark.streamsched.traceparent={CONTEXT}" in submitted.argv
    assert f"spark.executorEnv.TRACEPARENT={CONTEXT}" in submitted.argv
    assert "traceparent" not in " ".join(command(assignment(SparkJob(str(main))), site, Path("/run.json")).argv).lower()

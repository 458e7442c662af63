"""The command of a run's program: argv and environment, with the checks that need no JVM."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self, assert_never

from streamsched.domain.access.token import run_token_text
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.domain.programs.secret import Secret
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.schedule import EnqueueJob, HttpJob, PublishJob
from streamsched.domain.schedules.shell_command import variable_of
from streamsched.domain.schedules.template import fill_path, fill_template, filled_part
from streamsched.ports.runs import Assignment
from streamsched.process.os_user import OsUser, private_folder
from streamsched.spark.drivers.java import find_java
from streamsched.spark.drivers.plan import DriverPlan, conf_options, driver_plan, unprepared_reason
from streamsched.spark.drivers.spark_submit import DRIVER_PYTHON, DriverPython
from streamsched.spark.files import RunFiles
from streamsched.spark.metrics.event_log_settings import defaults_log_events, event_log_settings, program_logs_events
from streamsched.spark.needs.options import check_files, executor_python, file_options
from streamsched.spark.needs.private_conf import properties, redaction

#: The variable, and the property of Spark, with the context of a run (W3C Trace Context).
TRACEPARENT: Final = "TRACEPARENT"
TRACE_PROPERTY: Final = "spark.streamsched.traceparent"
#: The trace that a launcher was started in is not that of its runs.
_OF_LAUNCHER: Final = frozenset({TRACEPARENT, "TRACESTATE"})

#: Calls a PySpark module; `spark-submit` takes a path.
_SPARK_CALL: Final = Path(__file__).with_name("calls") / "spark_call.py"
PYTHON_CALL: Final = "streamsched.spark.calls.python_call"
_WITH_ENVIRONMENT: Final = "streamsched.spark.calls.with_environment"
#: Below the data folder: Python environments made from requirements files.
_ENVIRONMENTS: Final = "environments"
#: And the tables of programs that name no other place.
_WAREHOUSE: Final = "spark-warehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """How runs with `deploy_mode` connect find a server.

    Attributes:
        url: an external server (`sc://host:port`); empty: the machine's own is started.
        master: master of the own server.
        memory: its heap (`spark.driver.memory`).
        runs: it is replaced after so many runs.
        resident: it is replaced when it takes so many bytes of memory.
        idle_s: it ends after so many seconds without a run.
        metrics: whether the own server writes an event log, from which the metrics of runs are read.
    """

    url: str = ""
    master: str = "local[*]"
    memory: str = "1g"
    runs: int = 500
    resident: int = 4 << 30
    idle_s: float = 1800.0
    metrics: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """The environment of a runner.

    Attributes:
        data_dir: absolute folder of logs, run files, spooled events and Spark's scratch files.
        spark_master: default master of Spark programs.
        emit_url: where programs send their events.
        spark_metrics: whether Spark programs write an event log, from which their metrics are read.
        spark_event_logs: a folder that clusters and launchers share, for the event logs of drivers there; None: those
            write none for us.
        prepared_drivers: how many drivers its launcher keeps for them.
        signing_key: the installation's key, with which the token of a run is signed; empty: runs get none.
        connect: how programs find a Spark Connect server.
        sampler: of traces; None when no spans are made.
        users, proxy_users: as whom programs run on this machine, and on YARN.
        user, proxy_user: of the run's program (`of`); None, "": the launcher's.
        environ: the variables of the launcher that programs inherit; `STREAMSCHED_*` is never passed.
        withheld: the names of its other variables, which programs do not get.
    """

    data_dir: Path
    spark_master: str
    emit_url: str
    environ: Mapping[str, str]
    withheld: tuple[str, ...] = ()
    signing_key: bytes = b""
    spark_metrics: bool = True
    spark_event_logs: Path | None = None
    prepared_drivers: int = 0
    sampler: Sampler | None = None
    connect: ConnectSettings = field(default_factory=ConnectSettings)
    users: ProgramUsers = field(default_factory=ProgramUsers)
    proxy_users: ProgramUsers = field(default_factory=ProgramUsers)
    user: OsUser | None = None
    proxy_user: str = ""

    def for_program(self, program: ProgramRef) -> Self:
        """This environment for a program, with its users.

        Raises:
            ConfigurationError: a user does not exist on this machine.
        """
        name = self.users.user_of(program)
        return replace(self, user=OsUser.find(name) if name else None, proxy_user=self.proxy_users.user_of(program))

    @property
    def scratch(self) -> Path:
        """The folder of what the programs of one user keep between runs."""
        return self.data_dir if self.user is None else self.data_dir / "users" / self.user.name

    def make_scratch(self) -> None:
        """Makes it, where programs have users.

        Raises:
            OSError: it cannot be made.
        """
        if self.user is not None:
            private_folder(self.data_dir / "users", passable=True)
            private_folder(self.scratch, self.user)
        elif self.users.users:
            private_folder(self.data_dir / _WAREHOUSE)


@dataclass(frozen=True, slots=True)
class Command:
    """How a run is executed.

    Attributes:
        python: of a Python program, its target and options, which another process may execute as well.
        cold: why only processes that are started anew may execute it; empty: any.
        private: a file with settings that are secrets, and its content; the caller writes it, readable for its owner
            only, before the start, and removes it after the end.
        event_log: of a Spark program, the folder of its event log, which must exist when it starts; None: it writes
            none for us.
        driver: of a Spark program, the prepared driver that it may have instead; None: for the reason in `cold`.
        driver_python: of a Spark program, what its JVM starts instead of Python.
        user: as whom it runs, and who owns these files; None: this process's.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    python: tuple[str, ...] = ()
    cold: str = ""
    private: tuple[Path, bytes] | None = field(default=None, repr=False)
    event_log: Path | None = None
    driver: DriverPlan | None = None
    driver_python: DriverPython | None = None
    user: OsUser | None = None


def command(
    assignment: Assignment,
    runtime: RunEnvironment,
    run_file: Path,
    secrets: Mapping[Secret, str] | None = None,
) -> Command:
    """The command that executes the assignment. `secrets`: the values of those that its program refers to.

    Raises:
        ConfigurationError: it cannot be executed here; the message becomes the run's reason.
    """
    env = environment(assignment, runtime, run_file)
    match assignment.program.executable:
        case BashJob(command=line):
            return Command((shutil.which("bash") or "/bin/bash", "-c", line), env, user=runtime.user)
        case PythonJob() as job:
            options = (fill_template(each, assignment.arguments) for each in job.arguments)
            own = _with_folder({**env, **job.env, **secret_values(job.secret_env, secrets)}, job.folder)
            call = (job.target, *options)
            argv = (sys.executable, "-m", PYTHON_CALL, *call)
            return Command(argv, own, call, _why_cold(job, runtime), user=runtime.user)
        case SparkJob() as job:
            return _spark_submit(assignment, job, runtime, env, secrets)
        case HttpJob() | PublishJob() | EnqueueJob() | ArrivalJob():
            raise ConfigurationError("launchers execute such programs inline, without a command")
        case _:
            assert_never(assignment.program.executable)


def _why_cold(job: PythonJob, runtime: RunEnvironment) -> str:
    if runtime.user is not None:
        return f"it runs as user {runtime.user.name}"
    return "it is given secrets" if job.secret_env else ""


def environment(assignment: Assignment, runtime: RunEnvironment, run_file: Path) -> dict[str, str]:
    """The variables of a program's process: those of the launcher, the run's arguments, and what identifies the run."""
    env = {
        name: value
        for name, value in runtime.environ.items()
        if not name.startswith("STREAMSCHED_") and name not in _OF_LAUNCHER
    }
    if runtime.user is not None:
        env |= runtime.user.environ()
        env.pop("TMPDIR", None)  # of the launcher's user
    for name, value in assignment.arguments.items():
        env[variable_of(name)] = value
    if runtime.signing_key:
        env["STREAMSCHED_TOKEN"] = run_token_text(assignment.run, runtime.signing_key)
    if assignment.traceparent is not None:
        env[TRACEPARENT] = assignment.traceparent
    return env | {
        "STREAMSCHED_RUN_ID": assignment.run,
        "STREAMSCHED_RUN_FILE": str(run_file),
        "STREAMSCHED_NAMESPACE": assignment.program.ref.namespace,
        "STREAMSCHED_EMIT_URL": runtime.emit_url,
        "STREAMSCHED_SPOOL": str(RunFiles(runtime.data_dir, assignment.run).spool),
        "PYTHONUNBUFFERED": "1",
    }


def trace_settings(assignment: Assignment) -> Mapping[str, str]:
    """Spark's settings for the context of a run: a property of the driver, and a variable of executors."""
    if assignment.traceparent is None:
        return {}
    return {TRACE_PROPERTY: assignment.traceparent, f"spark.executorEnv.{TRACEPARENT}": assignment.traceparent}


def secret_values(references: Mapping[str, Secret], secrets: Mapping[Secret, str] | None) -> dict[str, str]:
    """The values of a program's secrets, by name.

    Raises:
        ConfigurationError: the caller has not read one of them.
    """
    for secret in references.values():
        if secret not in (secrets or {}):
            raise ConfigurationError(f"secret {secret.reference} is read only by a launcher's runs")
    return {name: (secrets or {})[secret] for name, secret in references.items()}


def _spark_submit(
    assignment: Assignment,
    job: SparkJob,
    runtime: RunEnvironment,
    env: dict[str, str],
    secrets: Mapping[Secret, str] | None,
) -> Command:
    main = fill_path(job.main, assignment.arguments) if job.module is None else str(_SPARK_CALL)
    if "://" not in main and not Path(main).is_file():  # spark-submit downloads URLs
        raise ConfigurationError(f"the program's main file {main} does not exist (working directory: {Path.cwd()})")
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationError("PySpark is not installed: pip install 'streamsched[spark]'")
    check_files(job)
    find_java(runtime.environ)
    home = Path(spec.origin).parent
    master = job.master or runtime.spark_master
    event_log = _event_log(assignment, job, runtime, home)
    own_log, traces = {} if event_log is None else event_log_settings(event_log), trace_settings(assignment)
    conf = {
        "spark.log.level": "WARN",
        "spark.submit.callSystemExitOnMainExit": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(runtime.scratch / _WAREHOUSE),
        **{f"spark.executorEnv.{name}": value for name, value in job.env.items()},
        **job.needs.sizes(),
        **job.conf,
    }
    own, secret_env = job.env, secret_values(job.needs.secret_env, secrets)
    private = {f"spark.executorEnv.{name}": value for name, value in secret_env.items()}
    private |= secret_values(job.needs.secret_conf, secrets)
    conf = {**redaction(private), **conf}
    _check_passed(job.env_from_os, env, runtime.withheld)
    env = _with_folder({**env, **own, **secret_env}, job.folder)
    if job.env_from_os:  # by name: arguments of a process are visible to all users of its host
        env["STREAMSCHED_EXECUTOR_ENV"] = ",".join(job.env_from_os)
    named = conf.pop("spark.pyspark.python", "")
    python = named or executor_python(job, master, sys.executable)
    driver_python = conf.pop("spark.pyspark.driver.python", "") or named or sys.executable
    env |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": python, DRIVER_PYTHON: driver_python}
    if master.startswith("local"):
        env.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = conf_options({**own_log, **traces, **conf})
    part = fill_template if job.module is None else filled_part
    file = None
    if private:
        path = RunFiles(runtime.data_dir, assignment.run).private_conf
        file = path, properties(private, env, home, runtime.user)
        settings += ("--properties-file", str(path))
    wrapped: tuple[str, ...] = ()
    if job.needs.requirements:
        folder = str(runtime.scratch / _ENVIRONMENTS)
        wrapped = (sys.executable, "-m", _WITH_ENVIRONMENT, folder, job.needs.requirements)
    called = (str(home / "bin" / "spark-submit"), "--master", master, "--deploy-mode", "client")
    submit = (*called, *proxy_options(master, runtime.proxy_user))
    arguments = (part(argument, assignment.arguments) for argument in job.arguments)
    program = (main, *(() if job.module is None else (job.module,)), *arguments)
    unprepared = unprepared_reason(
        job,
        master,
        conf,
        enabled=runtime.prepared_drivers > 0,
        user="" if runtime.user is None else runtime.user.name,
        own_event_log=runtime.spark_metrics and event_log is None,
        own_python=driver_python != sys.executable,
    )
    plan = driver_plan(
        job,
        assignment.run,
        RunFiles(runtime.data_dir, assignment.run).log,
        data_dir=runtime.data_dir,
        namespace=assignment.program.ref.namespace,
        master=master,
        options=(*submit, *file_options(job)),
        conf={**own_log, **conf},
        environ={key: value for key, value in env.items() if not key.startswith("STREAMSCHED_") and key != TRACEPARENT},
        run={"program": program, "env": env, "properties": dict(traces)},
    )
    return Command(
        (*wrapped, *submit, "--name", assignment.run, *settings, *file_options(job), *program),
        env,
        cold=unprepared,
        private=file,
        event_log=event_log,
        driver=None if unprepared else plan,
        driver_python=RunFiles(runtime.data_dir, assignment.run).driver_python,
        user=runtime.user,
    )


def proxy_options(master: str, user: str) -> tuple[str, ...]:
    """The options of `spark-submit` for a user of YARN whom the submitting user may impersonate."""
    return ("--proxy-user", user) if user and master.startswith("yarn") else ()


def _event_log(assignment: Assignment, job: SparkJob, runtime: RunEnvironment, home: Path) -> Path | None:
    """The folder of the run's event log; None when it is not to be measured, or Spark is to write one elsewhere."""
    given = program_logs_events(job) or defaults_log_events(runtime.environ, home)
    return None if given or not runtime.spark_metrics else RunFiles(runtime.data_dir, assignment.run).event_log


def _check_passed(names: Sequence[str], env: Mapping[str, str], withheld: Sequence[str]) -> None:
    """Raises:
    ConfigurationError: one of these variables is not set here, or programs do not get it.
    """
    for name in names:
        if name in withheld:
            raise ConfigurationError(
                f"programs do not get variable {name} of env_from_os: STREAMSCHED_PROGRAM_ENVIRONMENT does not name it"
            )
        if name not in env:
            raise ConfigurationError(f"variable {name} of env_from_os is not set where the launcher runs")


def _with_folder(env: dict[str, str], folder: str) -> dict[str, str]:
    """With the folder first on the import path."""
    if not folder:
        return env
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, (folder, env.get("PYTHONPATH"))))}

"""The backend of a run whose driver runs in a cluster, and what it submits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, assert_never

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.programs.spark_deployment import ClusterKind, cluster_kind
from streamsched.domain.programs.spark_needs import ENVIRONMENT
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.template import fill_path, fill_template
from streamsched.ports.runs import Assignment
from streamsched.spark.backends.backend import Backend, DriverSubmission, run_label
from streamsched.spark.backends.kubernetes import KubernetesBackend
from streamsched.spark.backends.standalone import StandaloneBackend
from streamsched.spark.backends.submit_process import SubmitProcess
from streamsched.spark.backends.yarn import YarnBackend, resource_managers
from streamsched.spark.command import TRACEPARENT, RunEnvironment, environment, trace_settings
from streamsched.spark.drivers.java import find_java
from streamsched.spark.files import RunFiles
from streamsched.spark.metrics.event_log_settings import defaults_log_events, event_log_settings, shared_event_log
from streamsched.spark.needs.options import check_files, importable_files, other_files

#: Longest run file that a driver gets in its environment; a longer one is read from the launchers' folder.
_CONTENT: Final = 64 * 1024
#: Variables of the launcher's machine that drivers elsewhere do not get.
_HERE: Final = ("STREAMSCHED_SPOOL",)
_PYTHON: Final = "PYSPARK_PYTHON"
_DRIVER_PYTHON: Final = "PYSPARK_DRIVER_PYTHON"


def cluster_master(assignment: Assignment, job: SparkJob, runtime: RunEnvironment) -> str:
    """The cluster that has the driver, or else the one that the program, or the installation, names."""
    return job.master or runtime.spark_master if assignment.driver is None else assignment.driver.master


async def driver_event_log(assignment: Assignment, job: SparkJob, runtime: RunEnvironment) -> Path | None:
    """The folder of the event log that the run's driver writes; None when it writes none for us."""
    if not runtime.spark_metrics:
        return None
    if assignment.driver is None and not cluster_master(assignment, job, runtime).startswith("spark://"):
        spec = find_spec("pyspark")
        home = None if spec is None or spec.origin is None else Path(spec.origin).parent
        if home is not None and defaults_log_events(runtime.environ, home):  # this machine's `spark-submit` reads them
            return None
    label = run_label(assignment.run)  # a name without slashes, whatever is in the id
    return await shared_event_log(runtime.spark_event_logs, label, job, submitted=assignment.driver is not None)


def cluster_backend(
    assignment: Assignment, job: SparkJob, runtime: RunEnvironment, files: RunFiles, event_log: Path | None = None
) -> Backend:
    """The backend of the run's cluster. `event_log`: the folder into which its driver writes one.

    Raises:
        ConfigurationError: the run cannot be submitted from here.
    """
    master = cluster_master(assignment, job, runtime)
    try:
        kind = cluster_kind(master, "STREAMSCHED_SPARK_MASTER" if job.master is None else "master")
    except InvalidDefinitionError as exc:
        raise ConfigurationError(str(exc)) from exc
    submission = submission_of(assignment, job, runtime, files, master, event_log=event_log)
    if kind is not ClusterKind.STANDALONE and assignment.driver is None:
        _check_uploaded(submission, job)
    match kind:
        case ClusterKind.STANDALONE:
            return StandaloneBackend(submission)
        case ClusterKind.YARN:
            return YarnBackend(submission, resource_managers(runtime.environ), _submit(submission, runtime, files))
        case ClusterKind.KUBERNETES:
            return KubernetesBackend(submission, _submit(submission, runtime, files))
        case _:
            assert_never(kind)


def submission_of(
    assignment: Assignment,
    job: SparkJob,
    runtime: RunEnvironment,
    files: RunFiles,
    master: str,
    *,
    event_log: Path | None = None,
) -> DriverSubmission:
    """What the cluster is to run. The run file is in the environment of the driver where it is short enough."""
    env = {
        name: value
        for name, value in environment(assignment, runtime, files.run_file).items()
        if (name.startswith("STREAMSCHED_") and name not in _HERE) or name == TRACEPARENT
    }
    content = files.run_file.read_text()
    if len(content) <= _CONTENT:
        env["STREAMSCHED_RUN_CONTENT"] = content
    python = job.env.get(_PYTHON) or runtime.environ.get(_PYTHON)
    if python is None and "spark.pyspark.python" not in job.conf:
        python = sys.executable
    env |= {"PYTHONUNBUFFERED": "1", **({_PYTHON: python} if python else {}), **job.env}
    if job.needs.has_packed_environment:
        env[_PYTHON] = f"./{ENVIRONMENT}/bin/python"
        if master.startswith("spark://"):  # only its executors unpack archives
            env.setdefault(_DRIVER_PYTHON, python or sys.executable)
    needs = job.needs
    lists = {"spark.jars": needs.jars, "spark.jars.packages": needs.packages, "spark.archives": needs.archives}
    return DriverSubmission(
        run=assignment.run,
        master=master,
        main=fill_path(job.main, assignment.arguments),
        main_class=needs.main_class,
        arguments=tuple(fill_template(each, assignment.arguments) for each in job.arguments),
        conf={
            **({} if event_log is None else event_log_settings(event_log)),
            **trace_settings(assignment),
            **{f"spark.executorEnv.{name}": value for name, value in job.env.items()},
            **job.needs.sizes(),
            **{name: ",".join(each) for name, each in lists.items() if each},
            **job.conf,
        },
        env=env,
        importable=importable_files(job),
        files=other_files(job),
        user="" if runtime.user is None else runtime.user.name,
        proxy_user=runtime.proxy_user,
    )


def _check_uploaded(submission: DriverSubmission, job: SparkJob) -> None:
    """Checks what `spark-submit` uploads from this machine.

    Raises:
        ConfigurationError: a file does not exist.
    """
    main = submission.main
    if "://" not in main and not Path(main).is_file():
        raise ConfigurationError(f"the program's main file {main} does not exist")
    check_files(job)


def _submit(submission: DriverSubmission, runtime: RunEnvironment, files: RunFiles) -> SubmitProcess:
    """Raises:
    ConfigurationError: `spark-submit` cannot be started.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationError("PySpark is not installed: pip install 'streamsched[spark]'")
    find_java(runtime.environ)
    home = Path(spec.origin).parent
    environ: Mapping[str, str] = {
        **{name: value for name, value in runtime.environ.items() if not name.startswith("STREAMSCHED_")},
        **({} if runtime.user is None else runtime.user.environ()),
        "SPARK_HOME": str(home),
    }
    return SubmitProcess(home / "bin" / "spark-submit", environ, files.log, runtime.user)

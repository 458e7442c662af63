"""The backend of a run whose driver runs in a cluster, and what it submits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, assert_never

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.programs.spark_deployment import ClusterKind, cluster_kind
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.template import filled
from streamsched.ports.runs import Assignment
from streamsched.spark.backends.backend import Backend, DriverSubmission
from streamsched.spark.backends.kubernetes import KubernetesBackend
from streamsched.spark.backends.standalone import StandaloneBackend
from streamsched.spark.backends.submit_process import SubmitProcess
from streamsched.spark.backends.yarn import YarnBackend, resource_managers
from streamsched.spark.command import IMPORTABLE, RunEnvironment, environment, find_java
from streamsched.spark.files import RunFiles

#: Longest run file that a driver gets in its environment; a longer one is read from the launchers' folder.
_CONTENT: Final = 64 * 1024
#: Variables of the launcher's machine that drivers elsewhere do not get.
_HERE: Final = ("STREAMSCHED_SPOOL",)
_PYTHON: Final = "PYSPARK_PYTHON"


def cluster_backend(assignment: Assignment, job: SparkJob, runtime: RunEnvironment, files: RunFiles) -> Backend:
    """The backend of the cluster that the program, or else the installation, names.

    Raises:
        ConfigurationError: the run cannot be submitted from here.
    """
    master = job.master or runtime.spark_master
    try:
        kind = cluster_kind(master, "STREAMSCHED_SPARK_MASTER" if job.master is None else "master")
    except InvalidDefinitionError as exc:
        raise ConfigurationError(str(exc)) from exc
    submission = submission_of(assignment, job, runtime, files, master)
    match kind:
        case ClusterKind.STANDALONE:
            return StandaloneBackend(submission)
        case ClusterKind.YARN:
            return YarnBackend(
                submission, resource_managers(runtime.environ), _submit(submission, runtime, files), files.log
            )
        case ClusterKind.KUBERNETES:
            return KubernetesBackend(submission, _submit(submission, runtime, files), files.log)
        case _:
            assert_never(kind)


def submission_of(
    assignment: Assignment, job: SparkJob, runtime: RunEnvironment, files: RunFiles, master: str
) -> DriverSubmission:
    """What the cluster is to run. The run file is in the environment of the driver where it is short enough."""
    env = {
        name: value
        for name, value in environment(assignment, runtime, files.run_file).items()
        if name.startswith("STREAMSCHED_") and name not in _HERE
    }
    content = files.run_file.read_text()
    if len(content) <= _CONTENT:
        env["STREAMSCHED_RUN_CONTENT"] = content
    python = job.env.get(_PYTHON) or runtime.environ.get(_PYTHON)
    if python is None and "spark.pyspark.python" not in job.conf:
        python = sys.executable
    env |= {"PYTHONUNBUFFERED": "1", **({_PYTHON: python} if python else {}), **job.env}
    return DriverSubmission(
        run=assignment.run,
        master=master,
        main=filled(job.main, assignment.arguments),
        arguments=tuple(filled(each, assignment.arguments) for each in job.arguments),
        conf={**{f"spark.executorEnv.{name}": value for name, value in job.env.items()}, **job.conf},
        env=env,
        importable=tuple(each for each in job.uris if each.lower().endswith(IMPORTABLE)),
        files=tuple(each for each in job.uris if not each.lower().endswith(IMPORTABLE)),
    )


def _submit(submission: DriverSubmission, runtime: RunEnvironment, files: RunFiles) -> SubmitProcess:
    """Raises:
    ConfigurationError: `spark-submit` cannot be started, or its file does not exist.
    """
    main = submission.main
    if "://" not in main and not Path(main).is_file():  # it uploads files of this machine
        raise ConfigurationError(f"the program's main file {main} does not exist")
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationError("PySpark is not installed: pip install 'streamsched[spark]'")
    find_java(runtime.environ)
    home = Path(spec.origin).parent
    environ: Mapping[str, str] = {
        **{name: value for name, value in runtime.environ.items() if not name.startswith("STREAMSCHED_")},
        "SPARK_HOME": str(home),
    }
    return SubmitProcess(home / "bin" / "spark-submit", environ, files.log)

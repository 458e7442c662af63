"""What the deploy mode of a Spark program permits, once its profile and its bundle are known."""

from __future__ import annotations

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import SparkJob, check_bundle_readable, check_spark_deployment
from streamsched.ports.runs import Assignment


def check_prepared(assignment: Assignment, prepared: Assignment, default_master: str) -> None:
    """Checks what a deployment could not know: a profile may have changed since, and the installation has its master.

    Args:
        prepared: the same, with the settings of its profile and paths into the folder of its bundle.

    Raises:
        ConfigurationError: the deploy mode does not permit it; the message has the path of the field.
    """
    defined, job = assignment.program.executable, prepared.program.executable
    if not (isinstance(defined, SparkJob) and isinstance(job, SparkJob)) or job.deploy_mode is DeployMode.CLIENT:
        return
    try:
        check_spark_deployment(job, "$")
        check_bundle_readable(defined, "$", job.master or default_master)
    except InvalidDefinitionError as exc:
        raise ConfigurationError(str(exc)) from exc

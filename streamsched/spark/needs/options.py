"""The options of `spark-submit` for what a program needs, and its settings together with those of its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.programs.spark_needs import ENVIRONMENT
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.schedules.process_job import SparkJob, paths_of

#: Files that Python code of Spark can import.
_IMPORTABLE: Final = (".py", ".zip", ".egg", ".whl")


def with_profile(job: SparkJob, profile: SparkProfile | None) -> SparkJob:
    """The job with the settings of its profile, which its own override."""
    if profile is None:
        return job
    needs = job.needs
    own = {*job.conf, *needs.secret_conf, *needs.sizes()}
    plain = {name: value for name, value in profile.settings().items() if name not in own}
    secret = {name: value for name, value in profile.secret_conf.items() if name not in own}
    return replace(
        job,
        master=job.master or profile.master,
        conf={**plain, **job.conf},
        needs=replace(needs, secret_conf={**secret, **needs.secret_conf}),
    )


def file_options(job: SparkJob) -> tuple[str, ...]:
    """The options for files, packages and the class of a jar."""
    needs = job.needs
    lists: Mapping[str, Sequence[str]] = {
        "--py-files": importable_files(job),
        "--files": other_files(job),
        "--jars": needs.jars,
        "--archives": needs.archives,
        "--packages": needs.packages,
    }
    options = tuple(part for name, values in lists.items() if values for part in (name, ",".join(values)))
    return ("--class", needs.main_class, *options) if needs.main_class else options


def importable_files(job: SparkJob) -> tuple[str, ...]:
    """Paths and URLs of the files that driver and executors can import."""
    return (*(each for each in job.uris if each.lower().endswith(_IMPORTABLE)), *job.needs.py_files)


def other_files(job: SparkJob) -> tuple[str, ...]:
    """Paths and URLs of the files that driver and executors get besides."""
    return (*(each for each in job.uris if not each.lower().endswith(_IMPORTABLE)), *job.needs.files)


def check_files(job: SparkJob) -> None:
    """Checks that the files exist on this machine.

    Raises:
        ConfigurationError: one does not; the message has the path of the field.
    """
    for path, text in paths_of(job).items():
        if path != "$.main" and "://" not in text and not Path(text).exists():
            raise ConfigurationError(f"{path}: no such file {text} on this machine")


def executor_python(job: SparkJob, master: str, python: str) -> str:
    """The Python of the executors.

    Raises:
        ConfigurationError: they unpack their environment from an archive, but there are none.
    """
    if not job.needs.has_packed_environment:
        return python
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise ConfigurationError(
            f"an archive named {ENVIRONMENT} is unpacked by the executors of a cluster, but the master is {master}; "
            "give `requirements` instead"
        )
    return f"./{ENVIRONMENT}/bin/python"

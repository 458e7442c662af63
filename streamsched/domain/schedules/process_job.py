"""What a runner executes as a process: PySpark applications, shell commands and Python functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.failure import LARGEST_EXIT_CODE
from streamsched.domain.limits import abridge, check_count, check_most
from streamsched.domain.programs.bundle import check_digest, check_path
from streamsched.domain.programs.secret import Secret, refuse_secrets
from streamsched.domain.programs.spark_deployment import (
    ClusterKind,
    DeployMode,
    check_deployment,
    check_needs_of_mode,
    cluster_kind,
)
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.template import NO_TEMPLATE, has_placeholder

#: The command of a shell program that does nothing.
NOTHING: Final = "true"
#: Most entries of an environment, and most files of a Spark job.
MOST_ENTRIES: Final = 1000
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_TARGET: Final = re.compile(rf"{_MODULE.pattern}:{_MODULE.pattern}", re.ASCII)
_KIND: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A Spark application: a Python file, a jar, or a module with a function `main`.

    Attributes:
        main: path of the Python file or the jar; empty with `module`.
        arguments: its command line; `{name}` is replaced by the run's argument of that name.
        master: Spark master URL; None takes the installation's.
        conf: `--conf` settings.
        module: a module whose `main` is called with `sc` and `ns`, or with `textFile` and `ns`, or for each line.
        folder: where the module is searched first; empty: nowhere else than on the import path.
        env: variables of the driver and the executors.
        env_from_os: names of the launcher's variables that the executors get too.
        uris: files for driver and executors; Python files and archives of them can be imported there.
        needs: packages, files, sizes, secrets and the like.
        deploy_mode: where the driver runs.
    """

    main: str
    arguments: tuple[str, ...] = ()
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    module: str | None = None
    folder: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    env_from_os: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    needs: SparkNeeds = field(default_factory=SparkNeeds)
    deploy_mode: DeployMode = DeployMode.CLIENT

    def __post_init__(self) -> None:
        if self.module is not None:
            if self.main:
                raise InvalidDefinitionError("$.pymodule", "is given beside main; an application is one of them")
            if self.needs.main_class:
                raise InvalidDefinitionError("$.main_class", "is of a main that is a jar, but pymodule is given")
            if not _MODULE.fullmatch(self.module):
                raise InvalidDefinitionError(
                    "$.pymodule", f"must be a module such as tasks.flow but is {abridge(self.module)}"
                )
        elif not self.main:
            raise InvalidDefinitionError("$.main", "must be a Python file or a jar but is empty")
        elif self.env_from_os:
            raise InvalidDefinitionError("$.env_from_os", "is for a pymodule; the driver has these variables anyhow")
        _check_environment(self.env, self.env_from_os, self.needs.secret_env)
        _check_command_line(self.arguments)
        self.needs.check_conf(self.conf)
        if self.needs.bundle:
            _check_in_bundle(self)
        check_most(len(self.uris), MOST_ENTRIES, "$.uris", "files")
        for number, each in enumerate(self.uris):
            if not each.strip() or "," in each:
                raise InvalidDefinitionError(
                    f"$.uris[{number}]", f"must be a path or URL without comma: {abridge(each)}"
                )


def check_spark_deployment(job: SparkJob, path: str) -> None:
    """Checks a program when it is deployed: `check_deployment` and what it needs.

    Raises:
        InvalidDefinitionError: it does not fit its deploy mode.
    """
    conf = {**dict.fromkeys(job.needs.secret_conf, "a secret"), **job.conf}
    check_deployment(job.deploy_mode, path, master=job.master, module=job.module, conf=conf)
    check_needs_of_mode(job.deploy_mode, job.needs, path)
    if job.deploy_mode is DeployMode.CONNECT:
        _check_sent(job, path)
    if job.master is not None:
        check_bundle_readable(job, path, job.master)


def _check_sent(job: SparkJob, path: str) -> None:
    """Checks the files that a Spark Connect client reads and sends to its server: it knows no URLs and no wheels."""
    for field_, text in paths_of(job).items():
        where = f"{path}{field_.removeprefix('$')}"
        if "://" in text:
            raise InvalidDefinitionError(where, "is a URL, but with deploy_mode connect files are of the launchers")
        if field_ != "$.main" and text.lower().endswith(".whl"):
            raise InvalidDefinitionError(where, "is a wheel, which deploy_mode connect cannot give; give a .zip")


def check_bundle_readable(job: SparkJob, path: str, master: str) -> None:
    """Checks that a driver in the cluster `master` gets the files of the program's bundle, if it has any: launchers
    have them, from which `spark-submit` uploads them; a standalone cluster reads files where its workers are.

    Raises:
        InvalidDefinitionError: it does not; the path is that of the first such file.
    """
    if job.deploy_mode is not DeployMode.CLUSTER or not job.needs.bundle:
        return
    if cluster_kind(master, f"{path}.master") is not ClusterKind.STANDALONE:
        return
    for field_, text in paths_of(job).items():
        if "://" not in text and not text.startswith("/"):
            raise InvalidDefinitionError(
                f"{path}{field_.removeprefix('$')}",
                "is in a bundle, which only launchers have; the workers of a standalone cluster need a path or URL "
                "that they can read",
            )


@dataclass(frozen=True, slots=True)
class BashJob:
    """A shell command; the run's arguments are in its environment as `STREAMSCHED_ARG_<NAME>`. `success_codes`: exit
    codes besides 0 with which a run completes.
    """

    command: str
    success_codes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_success_codes(self.success_codes)


@dataclass(frozen=True, slots=True)
class PythonJob:
    """Python code in a process of its own: `module:function`, called with the run's arguments by name; or a module, or
    a kind by entry point, with `main(ns)` and optionally `build_arg_parser`.

    Attributes:
        arguments: the command line that `build_arg_parser` parses; `{name}` is replaced by the run's argument of that
            name.
        folder: where the module is searched first; empty: nowhere else than on the import path.
        env: variables of the process.
        secret_env: variables whose values are secrets.
        bundle: digest of the bundle in which the folder is; empty: none.
        success_codes: exit codes besides 0 with which a run completes.
    """

    target: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secret_env: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    bundle: str = ""
    success_codes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_success_codes(self.success_codes)
        if not (_TARGET if ":" in self.target else _KIND).fullmatch(self.target):
            raise InvalidDefinitionError(
                "$.target", f"must be module:function, a module, or a kind by entry point: {abridge(self.target)}"
            )
        if ":" in self.target and self.arguments:
            raise InvalidDefinitionError(
                "$.arguments", "are for a main(ns); a function is called with the run's arguments by name"
            )
        _check_environment(self.env, (), self.secret_env)
        _check_command_line(self.arguments)
        if self.bundle:
            check_digest(self.bundle)
            check_folder_in_bundle(self.folder)


def _check_success_codes(codes: tuple[int, ...]) -> None:
    for number, code in enumerate(codes):
        check_count(code, f"$.success_codes[{number}]", most=LARGEST_EXIT_CODE)
        if code in codes[:number]:
            raise InvalidDefinitionError(f"$.success_codes[{number}]", f"names {code} twice")


def check_folder_in_bundle(folder: str) -> None:
    """Raises:
    InvalidDefinitionError: it is not absolute, nor the bundle's folder (`.`), nor a relative path within it.
    """
    if folder not in ("", ".") and not folder.startswith("/"):
        check_path(folder, "$.folder")


def paths_of(job: SparkJob, *, whole: bool = False) -> dict[str, str]:
    """The files that a Spark program names, by the paths of their fields: of lists without the `#name` of an entry,
    unless `whole`.
    """
    needs = job.needs
    listed = {"uris": job.uris, "py_files": needs.py_files, "jars": needs.jars, "files": needs.files}
    listed |= {"archives": needs.archives}
    found = {
        f"$.{name}[{at}]": each if whole else each.partition("#")[0]
        for name, values in listed.items()
        for at, each in enumerate(values)
    }
    single = {"$.main": job.main, "$.requirements": needs.requirements}
    return {path: text for path, text in {**single, **found}.items() if text}


def check_file_names(job: SparkJob | PythonJob, path: str) -> None:
    """Checks a program when it is deployed: no argument of a run chooses which files it has.

    Raises:
        InvalidDefinitionError: one of them has a placeholder; the path is that of the field.
    """
    named = {"$.folder": job.folder} | (paths_of(job, whole=True) if isinstance(job, SparkJob) else {})
    for field_, text in named.items():
        if has_placeholder(text):
            raise InvalidDefinitionError(f"{path}{field_.removeprefix('$')}", f"is {abridge(text)}, but {NO_TEMPLATE}")


def _check_in_bundle(job: SparkJob) -> None:
    check_folder_in_bundle(job.folder)
    for path, text in paths_of(job).items():
        if "://" not in text and not text.startswith("/"):
            check_path(text, path)


def _check_command_line(arguments: tuple[str, ...]) -> None:
    refuse_secrets(
        {f"$.arguments[{at}]": each for at, each in enumerate(arguments)},
        "all users of a host can read the command lines of its processes; give it as a variable, by env",
    )


def _check_environment(env: Mapping[str, str], inherited: tuple[str, ...], secrets: Mapping[str, Secret]) -> None:
    check_most(len(env) + len(secrets), MOST_ENTRIES, "$.env", "variables")
    check_most(len(inherited), MOST_ENTRIES, "$.env_from_os", "variables")
    for path, names in (("$.env", {**env, **secrets}), ("$.env_from_os", inherited)):
        for name in names:
            if not _VARIABLE.fullmatch(name) or name.startswith("STREAMSCHED_"):
                raise InvalidDefinitionError(
                    path,
                    f"must have names of letters, digits and '_', not beginning with STREAMSCHED_: {abridge(name)}",
                )
    for name, value in env.items():
        if "\0" in value:
            raise InvalidDefinitionError(f"$.env.{name}", "holds a NUL, which no environment can")

"""What a Spark program needs: packages, files, an environment, sizes, a profile, secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import LONGEST_NAME, abridge, check_count, check_most
from streamsched.domain.names import check_queue_name
from streamsched.domain.programs.bundle import check_digest
from streamsched.domain.programs.secret import Secret

#: Most entries of a list.
MOST_ENTRIES: Final = 1000
#: Most cores of a process, and most executors.
MOST_CORES: Final = 10_000
MOST_EXECUTORS: Final = 100_000
#: The name by which an unpacked archive is the Python environment of the executors.
ENVIRONMENT: Final = "environment"
#: The least memory with which Spark starts a driver or an executor, in bytes.
LEAST_MEMORY: Final = 471_859_200
#: Largest memory or disk size, in bytes: a pebibyte.
MOST_MEMORY: Final = 2**50
#: Names, or beginnings of names, of settings that Spark writes into the command line of a process.
_IN_COMMAND_LINES: Final = (
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.memory",
    "spark.executor.extraJavaOptions",
    "spark.executor.defaultJavaOptions",
    "spark.executor.extraClassPath",
    "spark.executor.extraLibraryPath",
    "spark.executor.memory",
    "spark.ssl.",
)
_MEMORY: Final = re.compile(r"([1-9][0-9]*)([kmgt])b?", re.IGNORECASE | re.ASCII)
_UNITS: Final = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_COORDINATES: Final = re.compile(r"[A-Za-z0-9_.\-]+:[A-Za-z0-9_.\-]+:[A-Za-z0-9_.\-]+", re.ASCII)
_CLASS: Final = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*", re.ASCII)
#: A setting that a field sets, by the name of the field.
_SET_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "py_files": ("spark.submit.pyFiles",),
    "packages": ("spark.jars.packages",),
    "jars": ("spark.jars",),
    "files": ("spark.files",),
    "archives": ("spark.archives",),
    "requirements": ("spark.pyspark.python", "spark.pyspark.driver.python"),
}


@dataclass(frozen=True, slots=True)
class DriverSize:
    """The size of the driver; None takes Spark's. `memory`: of its heap, such as `2g`."""

    cores: int | None = None
    memory: str | None = None

    def __post_init__(self) -> None:
        _check_size(self.cores, self.memory, "$.driver")

    def conf(self) -> dict[str, str]:
        """The settings of Spark that it stands for."""
        return _set({"spark.driver.cores": self.cores, "spark.driver.memory": self.memory})


@dataclass(frozen=True, slots=True)
class ExecutorSize:
    """Number and size of the executors; None takes Spark's. `memory`: of the heap of each, such as `4g`."""

    instances: int | None = None
    cores: int | None = None
    memory: str | None = None

    def __post_init__(self) -> None:
        if self.instances is not None:
            check_count(self.instances, "$.executors.instances", most=MOST_EXECUTORS)
        _check_size(self.cores, self.memory, "$.executors")

    def conf(self) -> dict[str, str]:
        """The settings of Spark that it stands for. `spark.cores.max` bounds the executors on a standalone cluster."""
        most = self.instances * self.cores if self.instances is not None and self.cores is not None else None
        return _set(
            {
                "spark.executor.instances": self.instances,
                "spark.executor.cores": self.cores,
                "spark.executor.memory": self.memory,
                "spark.cores.max": most,
            }
        )


@dataclass(frozen=True, slots=True)
class SparkNeeds:
    """What a Spark program needs besides its main file.

    Attributes:
        main_class: of a main file that is a jar, the class whose `main` is called; empty: a Python file, or the class
            that the jar's manifest names.
        profile: name of the profile with its other settings (`domain.programs.spark_profile`); empty: none.
        py_files: Python files, and archives of them, that driver and executors can import.
        packages: Maven coordinates `group:artifact:version`, with what they depend on.
        jars: Java archives of driver and executors.
        files: files in the working folder of each executor.
        archives: archives that each executor unpacks; with `#name` into a folder of that name. One of name
            `environment` is its Python environment, with `bin/python`.
        requirements: a requirements file of pip; the driver gets an environment with these packages, and so do
            executors on its machine.
        driver, executors: their sizes.
        secret_conf, secret_env: settings and variables whose values are secrets.
        bundle: digest of the bundle in which relative paths are; empty: none.
    """

    profile: str = ""
    py_files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    requirements: str = ""
    driver: DriverSize = field(default_factory=DriverSize)
    executors: ExecutorSize = field(default_factory=ExecutorSize)
    secret_conf: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    secret_env: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    bundle: str = ""
    main_class: str = ""

    def __post_init__(self) -> None:
        if self.main_class and not is_class_name(self.main_class):
            raise InvalidDefinitionError(
                "$.main_class",
                f"must be the name of a class, such as com.acme.Join, of at most {LONGEST_NAME} characters, but is "
                f"{abridge(self.main_class)}",
            )
        if self.profile:
            check_queue_name(self.profile, "$.profile")
        for name in ("py_files", "packages", "jars", "files", "archives"):
            _check_list(getattr(self, name), f"$.{name}")
        for number, each in enumerate(self.packages):
            if not _COORDINATES.fullmatch(each):
                raise InvalidDefinitionError(
                    f"$.packages[{number}]", f"must be Maven coordinates group:artifact:version but is {abridge(each)}"
                )
        for number, each in enumerate(self.archives):
            if "#" in each and not re.fullmatch(r"[A-Za-z0-9_.\-]*[A-Za-z0-9_\-]", each.partition("#")[2]):
                raise InvalidDefinitionError(f"$.archives[{number}]", "must have the name of a folder after #")
        if self.requirements and self.has_packed_environment:
            raise InvalidDefinitionError(
                "$.requirements", f"is given beside an archive named {ENVIRONMENT}; an application has one environment"
            )
        check_secret_conf(self.secret_conf)
        if self.bundle:
            check_digest(self.bundle)

    @property
    def has_packed_environment(self) -> bool:
        """Whether an archive is the Python environment of the executors."""
        return any(each.partition("#")[2] == ENVIRONMENT for each in self.archives)

    def secrets(self) -> Mapping[Secret, str]:
        """The secrets, each with the path of a field that refers to it."""
        conf = {secret: conf_path(name) for name, secret in self.secret_conf.items()}
        return {**conf, **{secret: f"$.env.{name}" for name, secret in self.secret_env.items()}}

    def sizes(self) -> dict[str, str]:
        """The settings of Spark that the sizes stand for."""
        return {**self.driver.conf(), **self.executors.conf()}

    def check_conf(self, conf: Mapping[str, str]) -> None:
        """Checks that plain settings say nothing that these fields say too.

        Raises:
            InvalidDefinitionError: a setting is given twice; the path is that of the setting.
        """
        check_sizes_beside(conf, self.driver, self.executors)
        for name, settings in _SET_BY.items():
            for setting in settings:
                if getattr(self, name) and setting in conf:
                    raise InvalidDefinitionError(conf_path(setting), f"is given beside {name}; give one of them")
        for name in self.secret_conf:
            if name in conf:
                raise InvalidDefinitionError(conf_path(name), "is given twice")


def memory_bytes(text: str, path: str) -> int:
    """The bytes of a size such as `512m`, `2g` or `1t`.

    Raises:
        InvalidDefinitionError: it is no such size.
    """
    matched = _MEMORY.fullmatch(text) if len(text) < 20 else None
    if matched is None:
        raise InvalidDefinitionError(path, f"must be a size such as 512m or 2g but is {abridge(text)}")
    return int(matched[1]) * _UNITS[matched[2].lower()]


def check_sizes_beside(conf: Mapping[str, str], driver: DriverSize, executors: ExecutorSize) -> None:
    """Raises:
    InvalidDefinitionError: a setting says a size that `driver` or `executors` says too.
    """
    for part, size in (("driver", driver), ("executors", executors)):
        for setting in size.conf():
            if setting in conf and setting != "spark.cores.max":
                raise InvalidDefinitionError(conf_path(setting), f"is given beside {part}; give one of them")


def check_secret_conf(secrets: Mapping[str, Secret]) -> None:
    """Raises:
    InvalidDefinitionError: the setting is one that Spark writes into command lines, which all users of a host can read.
    """
    for name in secrets:
        if name.startswith(_IN_COMMAND_LINES):
            raise InvalidDefinitionError(
                conf_path(name), "cannot be a secret: Spark writes this setting into command lines"
            )


def is_class_name(text: str) -> bool:
    """Whether it can be the full name of a class of Java or Scala, such as `com.acme.Join`."""
    return len(text) <= LONGEST_NAME and _CLASS.fullmatch(text) is not None


def conf_path(name: str) -> str:
    """The path of a setting."""
    return f'$.conf["{name}"]'


def _set(values: Mapping[str, int | str | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def _check_size(cores: int | None, memory: str | None, path: str) -> None:
    if cores is not None:
        check_count(cores, f"{path}.cores", most=MOST_CORES)
    if memory is None:
        return
    found = memory_bytes(memory, f"{path}.memory")
    if not LEAST_MEMORY <= found <= MOST_MEMORY:
        raise InvalidDefinitionError(
            f"{path}.memory", f"must be from {LEAST_MEMORY // 2**20}m to {MOST_MEMORY // 2**40}t but is {memory}"
        )


def _check_list(values: tuple[str, ...], path: str) -> None:
    check_most(len(values), MOST_ENTRIES, path, "entries")
    for number, each in enumerate(values):
        if not each.strip() or "," in each or not each.isprintable():
            raise InvalidDefinitionError(
                f"{path}[{number}]", f"must not be empty and have no comma or control character: {abridge(each)}"
            )

"""Programs of CDAP: a Spark program with its class and jar, a MapReduce program as a command.

CDAP's specification names `mainClassName` and resources of a Spark program, `className` of a MapReduce program; the jar
is the artifact of the application.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from streamsched.codec.moving.draft import placeholder
from streamsched.dialects.cdap.codec.dump.answers import text_of
from streamsched.domain.json_value import Json
from streamsched.domain.programs.spark_needs import LEAST_MEMORY, MOST_CORES, is_class_name

_MEBIBYTE: Final = 2**20
_ARTIFACT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}", re.ASCII)
#: Classes of CDAP itself, which need its runtime.
_OF_CDAP: Final = ("io.cdap.cdap.", "co.cask.cdap.")
_CONF: Final = "properties"


class CdapKind(StrEnum):
    """Types of programs by their segment in addresses."""

    WORKFLOW = "workflows"
    SPARK = "spark"
    MAPREDUCE = "mapreduce"

    @property
    def word(self) -> str:
        """For messages."""
        return {"workflows": "workflow", "spark": "Spark program", "mapreduce": "MapReduce program"}[self.value]


#: By the lower-case `type` of a program in an application's detail.
KINDS: Final[Mapping[str, CdapKind]] = {
    "workflow": CdapKind.WORKFLOW,
    "spark": CdapKind.SPARK,
    "mapreduce": CdapKind.MAPREDUCE,
}
#: Why programs of the other types are not carried.
REFUSED_KINDS: Final[Mapping[str, str]] = {
    "service": "a service answers requests until it is stopped; a scheduler starts what ends",
    "worker": "a worker runs until it is stopped; a scheduler starts what ends",
    "flow": "flows ended with CDAP 6",
    "webapp": "web apps ended with CDAP 4",
    "custom": "a custom action is Java within CDAP",
    "customaction": "a custom action is Java within CDAP",
}


@dataclass(frozen=True, slots=True)
class Artifact:
    """The jar of an application.

    Attributes:
        system: whether it is one of CDAP's own, such as its pipelines.
    """

    name: str = ""
    version: str = ""
    system: bool = False

    @classmethod
    def read(cls, detail: Mapping[str, Json]) -> Artifact:
        """That of an application's detail; an empty one where it names none."""
        found = detail.get("artifact")
        if not isinstance(found, dict):
            return cls()
        return cls(text_of(found, "name"), text_of(found, "version"), text_of(found, "scope").upper() == "SYSTEM")

    def jar(self, place: str) -> str:
        """Its path or URL below `place`; empty where it has no name that a file has."""
        if not _ARTIFACT.fullmatch(self.name) or not _ARTIFACT.fullmatch(self.version):
            return ""
        return f"{place.rstrip('/')}/{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class ReadProgram:
    """A program here.

    Attributes:
        program: the JSON of an app file.
        about: what is different here; empty: nothing.
        refused: why it is a placeholder; empty: it is none.
        parts: parts of it that are not carried, each with the reason.
    """

    program: dict[str, Any]
    about: str = ""
    refused: str = ""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])


def program_of(
    kind: CdapKind, name: str, specification: Mapping[str, Json], artifact: Artifact, jars: str
) -> ReadProgram:
    """The program of a specification. `jars`: the folder or URL where the jars are."""
    spark = kind is CdapKind.SPARK
    given = text_of(dict(specification), "mainClassName" if spark else "className")
    jar = artifact.jar(jars)
    why = ""
    if artifact.system or given.startswith(_OF_CDAP) or text_of(dict(specification), "className").startswith(_OF_CDAP):
        why = f"is part of CDAP itself ({str(artifact) or given}), and runs in no other place"
    elif not specification:
        why = "has no specification in the dump, which names its class"
    elif not is_class_name(given):
        why = f"names no class: {'mainClassName' if spark else 'className'} is {given[:60]!r}"
    elif not jar:
        why = f"has no jar: the artifact of its application is {str(artifact)[:60]!r}"
    if why:
        return ReadProgram(placeholder(f"{kind.word} {name} of CDAP {why}"), refused=why)
    return _spark(specification, given, jar) if spark else _mapreduce(specification, given, jar)


def _spark(specification: Mapping[str, Json], main: str, jar: str) -> ReadProgram:
    parts: dict[str, str] = {}
    driver = _size(specification, "driverResources", parts)
    executors = _size(specification, "executorResources", parts)
    program = {
        "type": "spark",
        "main": jar,
        "main_class": main,
        **({"driver": driver} if driver else {}),
        **({"executors": executors} if executors else {}),
    }
    _note_properties(specification, parts)
    return ReadProgram(
        program, f"`main` of {main} is called; a class that has only CDAP's `run` must get one", parts=parts
    )


def _mapreduce(specification: Mapping[str, Json], main: str, jar: str) -> ReadProgram:
    parts: dict[str, str] = {}
    settings: list[str] = []
    for member, setting in (("mapperResources", "map"), ("reducerResources", "reduce")):
        memory = _memory_mb(specification, member)
        if memory is not None:
            settings.append(f"-Dmapreduce.{setting}.memory.mb={memory}")
    if _memory_mb(specification, "driverResources") is not None:
        parts["driverResources"] = "sizes of the driver are those of `hadoop` (HADOOP_CLIENT_OPTS)"
    for member in ("inputDataSet", "outputDataSet"):
        if specification.get(member):
            parts[member] = "is for the class to read and write"
    _note_properties(specification, parts)
    command = shlex.join(["exec", "hadoop", "jar", jar, main, *settings])
    about = (
        f"`hadoop jar` calls `main` of {main}, a Tool of Hadoop; a class that has only CDAP's `initialize` must get one"
    )
    return ReadProgram({"type": "bash", "command": command}, about, parts=parts)


def _note_properties(specification: Mapping[str, Json], parts: dict[str, str]) -> None:
    if specification.get(_CONF):
        parts[_CONF] = "are for the program to have, as `defaults`, where it reads them"


def _size(specification: Mapping[str, Json], member: str, parts: dict[str, str]) -> dict[str, Any]:
    """Cores and memory of a driver or of executors."""
    found = specification.get(member)
    if not isinstance(found, dict):
        return {}
    size: dict[str, Any] = {}
    cores, memory = found.get("virtualCores"), _memory_mb(specification, member)
    if isinstance(cores, int) and not isinstance(cores, bool) and 0 < cores <= MOST_CORES:
        size["cores"] = cores
    if memory is not None and memory * _MEBIBYTE >= LEAST_MEMORY:
        size["memory"] = f"{memory}m"
    elif memory is not None:
        parts[member] = f"memoryMB is {memory}, and Spark starts with at least {LEAST_MEMORY // _MEBIBYTE}: its default"
    return size


def _memory_mb(specification: Mapping[str, Json], member: str) -> int | None:
    found = specification.get(member)
    memory = found.get("memoryMB") if isinstance(found, dict) else None
    return memory if isinstance(memory, int) and not isinstance(memory, bool) and 0 < memory < 2**30 else None

"""What a program executes, or has read, on the machine of a launcher: what needs the permission `shell` (ADR 32).

| program | on the launcher's machine |
|---|---|
| `bash`, `python`; `spark` in client mode | all of it |
| `spark` with `connect` | its Python file, unless it runs as an OS user that is not the launcher's |
| `spark` in cluster mode | what `domain.programs.submitter` names |
| others | nothing of theirs |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from types import MappingProxyType
from typing import Final, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.programs.spark_deployment import ClusterKind, DeployMode, cluster_kind
from streamsched.domain.programs.spark_needs import SparkNeeds, conf_path
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.programs.submitter import file_refusal, setting_refusal
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob, paths_of
from streamsched.domain.schedules.schedule import EnqueueJob, HttpJob, Program, PublishJob

_WITHOUT: Final = "without `shell` it needs deploy_mode cluster"


class FieldReader(Enum):
    """Who reads a field of a Spark program in cluster mode.

    REMOTE: driver and executors only. FILE: the submitter, depending on the path. SETTING: depending on the name.
    RESOLVED: the submitter resolves it, except for a standalone cluster. LAUNCHER: the launcher's machine, always.
    """

    REMOTE = "remote"
    FILE = "file"
    SETTING = "setting"
    RESOLVED = "resolved"
    LAUNCHER = "launcher"


#: Of each field of `SparkJob` and `SparkNeeds`. `master` has a permission of its own; a profile is judged by its
#: content.
READERS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        "main": FieldReader.FILE,
        "arguments": FieldReader.REMOTE,
        "master": FieldReader.REMOTE,
        "conf": FieldReader.SETTING,
        "module": FieldReader.LAUNCHER,
        "folder": FieldReader.LAUNCHER,
        "env": FieldReader.REMOTE,
        "env_from_os": FieldReader.LAUNCHER,
        "uris": FieldReader.FILE,
        "needs": FieldReader.REMOTE,  # its fields follow
        "deploy_mode": FieldReader.REMOTE,
        "profile": FieldReader.REMOTE,
        "py_files": FieldReader.FILE,
        "packages": FieldReader.RESOLVED,
        "jars": FieldReader.FILE,
        "files": FieldReader.FILE,
        "archives": FieldReader.FILE,
        "requirements": FieldReader.LAUNCHER,
        "driver": FieldReader.REMOTE,
        "executors": FieldReader.REMOTE,
        "secret_conf": FieldReader.LAUNCHER,
        "secret_env": FieldReader.LAUNCHER,
        "main_class": FieldReader.REMOTE,
        "bundle": FieldReader.REMOTE,  # files in it are judged by their paths
    }
)


@dataclass(frozen=True, slots=True)
class Execution:
    """Something of a program that a launcher's machine executes or reads. `path`: of the field, beginning with `$`."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


@dataclass(frozen=True, slots=True)
class ProgramProfile:
    """The profile that a program names. `trusted`: it was set by a user who has the permission `shell`."""

    profile: SparkProfile
    trusted: bool


def executions(program: Program, profile: ProgramProfile | None = None, *, apart: bool = False) -> Iterator[Execution]:
    """What the program executes on launchers. Without any, it needs the permission to deploy only.

    Args:
        apart: whether programs of the namespace run as an OS user that is not the launcher's.
    """
    match program.executable:
        case BashJob():
            yield Execution("$.command", "is executed by a shell on the launcher's machine")
        case PythonJob():
            yield Execution("$.target", "is executed on the launcher's machine")
        case SparkJob() as job:
            yield from _spark(job, profile, apart=apart)
            yield from _check_fenced_outputs(program, apart=apart)
        case HttpJob() | PublishJob() | EnqueueJob() | ArrivalJob():
            return
        case _:
            assert_never(program.executable)


def _check_fenced_outputs(program: Program, *, apart: bool) -> Iterator[Execution]:
    """A launcher fences a run that was given up in a process with the program's variables."""
    for index, each in enumerate(program.outputs):
        if each.location and not apart:
            yield Execution(
                f"$.outputs[{index}].location", "is written on the launcher's machine when a run is given up"
            )


def profile_executions(job: SparkJob, profile: SparkProfile) -> Iterator[Execution]:
    """What a profile that a user without the permission `shell` has set does on launchers for this program, whichever
    user has deployed it.
    """
    path, named = "$.profile", f"'{profile.name}' was set without the permission `shell`"
    match job.deploy_mode:
        case DeployMode.CLIENT | DeployMode.CONNECT:
            yield Execution(path, f"{named}, so only programs with deploy_mode cluster may use it")
        case DeployMode.CLUSTER:
            kind = _kind(job.master or profile.master)
            for name, value in profile.conf.items():
                if why := setting_refusal(name, value, kind):
                    yield Execution(path, f"{named}, but its setting {name} {why}")
            for name in profile.secret_conf:
                yield Execution(path, f"{named}, but its setting {name} is a secret")
        case _:
            assert_never(job.deploy_mode)


def _spark(job: SparkJob, profile: ProgramProfile | None, *, apart: bool) -> Iterator[Execution]:
    match job.deploy_mode:
        case DeployMode.CLIENT:
            yield Execution("$.deploy_mode", f"is client: its driver runs on the launcher's machine; {_WITHOUT}")
        case DeployMode.CONNECT:
            if not apart:
                yield Execution("$.deploy_mode", f"is connect: its main runs on the launcher's machine; {_WITHOUT}")
        case DeployMode.CLUSTER:
            yield from _check_submitted_job(job, _kind(job.master))
            if profile is not None and not profile.trusted:
                yield from profile_executions(job, profile.profile)
        case _:
            assert_never(job.deploy_mode)


def _check_submitted_job(job: SparkJob, kind: ClusterKind | None) -> Iterator[Execution]:
    """Without a master of its own, a profile or the installation has it, which may change: any kind is assumed."""
    hint = "; without a master of its own it must fit any cluster" if kind is None else ""
    for name, value in job.conf.items():
        if why := setting_refusal(name, value, kind):
            yield Execution(conf_path(name), why + hint)
    for path, text in paths_of(job, whole=True).items():
        if _reader(path) is FieldReader.FILE and (why := file_refusal(text, kind, bundled=bool(job.needs.bundle))):
            yield Execution(path, why + hint)
    for part in (job, job.needs):
        for field in fields(part):
            reader, value = READERS[field.name], getattr(part, field.name)
            if reader is FieldReader.LAUNCHER and value:
                yield Execution(f"$.{field.name}", "is read on the launcher's machine")
            elif reader is FieldReader.RESOLVED and value and kind is not ClusterKind.STANDALONE:
                yield Execution(f"$.{field.name}", f"are resolved by spark-submit on the launcher's machine{hint}")


def _kind(master: str | None) -> ClusterKind | None:
    """None: not known, or none that can run a driver, which is refused elsewhere."""
    try:
        return None if master is None else cluster_kind(master)
    except InvalidDefinitionError:
        return None


def _reader(path: str) -> FieldReader:
    return READERS[path.removeprefix("$.").partition("[")[0]]


#: What `READERS` has to name.
CLASSES: Final = (SparkJob, SparkNeeds)

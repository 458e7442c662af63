"""What a run asks of a prepared driver, or why it cannot have one.

A driver belongs to a *profile*: namespace, command of its JVM with all settings, and environment. Runs of a profile
differ in what `Attachment` has.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from streamsched.domain.schedules.process_job import SparkJob
from streamsched.spark.needs.options import importable_files, other_files

#: Settings by which an application gives its executors back while it waits.
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_HELD: Final = ("spark.dynamicAllocation.minExecutors", "spark.dynamicAllocation.initialExecutors")
_NAME: Final = "streamsched-prepared"
_EVENT_LOG: Final = "spark.eventLog."
#: Below the data folder: the logs of drivers that wait.
_FOLDER: Final = "drivers"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPlan:
    """A driver that a run could have.

    Attributes:
        profile: as a driver is prepared: {"namespace", "submit", "env", "cwd", "folder", "files"}; `files` are stamps
            of files that its context reads.
        run: what the run executes in it: {"program", "properties", "event_log", "env", "local", "log"}.
    """

    profile: Mapping[str, Any] = field(repr=False)
    run: Mapping[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        """A name of the profile; files may change without another profile."""
        named = {name: value for name, value in self.profile.items() if name != "files"}
        return hashlib.sha256(orjson.dumps(named, option=orjson.OPT_SORT_KEYS)).hexdigest()


def conf_options(conf: Mapping[str, str]) -> tuple[str, ...]:
    """The settings as options of `spark-submit`."""
    return tuple(part for name, value in conf.items() for part in ("--conf", f"{name}={value}"))


def unprepared_reason(
    job: SparkJob,
    master: str,
    conf: Mapping[str, str],
    *,
    enabled: bool,
    user: str,
    own_event_log: bool,
    own_python: bool,
) -> str:
    """Why no driver can be prepared for runs of this job; empty when one can.

    Args:
        conf: all settings, with those of profile and installation.
        enabled: whether the launcher prepares any.
        user: as whom it runs; empty: the launcher's.
        own_event_log, own_python: whether its settings keep an event log, or name the driver's Python.
    """
    needs, local = job.needs, _is_local(master)
    held = next((each for each in _HELD if conf.get(each, "0") != "0"), "")
    reasons = {
        "STREAMSCHED_PREPARED_DRIVERS is 0": not enabled,
        f"it runs as user {user}": bool(user),
        "it is given secrets": bool(needs.secret_env or needs.secret_conf),
        "it has an environment of its own": bool(needs.requirements) or own_python,
        "its main file is a jar": bool(needs.main_class) or job.main.lower().endswith(".jar"),
        "its main file is downloaded": "://" in job.main,
        "it brings Python files": bool(importable_files(job)),
        "its executors get variables of the launcher": bool(job.env_from_os),
        "it keeps an event log of its own": own_event_log,
        f"its executors would be held while a driver waits: {_DYNAMIC} is not true": not local
        and conf.get(_DYNAMIC, "false").lower() != "true",
        f"its executors would be held while a driver waits: {held} is not 0": not local and bool(held),
    }
    return next((why for why, holds in reasons.items() if holds), "")


def driver_plan(
    job: SparkJob,
    name: str,
    log: Path,
    *,
    data_dir: Path,
    namespace: str,
    master: str,
    options: Sequence[str],
    conf: Mapping[str, str],
    environ: Mapping[str, str],
    run: Mapping[str, Any],
) -> DriverPlan:
    """The plan of a run.

    Args:
        name, log: of the run.
        options: the command and the options of `spark-submit` that are equal for all runs of the profile.
        conf: all settings of the run; those of its event log are not the profile's.
        environ: what the JVM may know.
        run: the run's program, properties and env; see `DriverPlan`.
    """
    event_log = {name: value for name, value in conf.items() if name.startswith(_EVENT_LOG)}
    static = {name: value for name, value in conf.items() if name not in event_log and name not in run["properties"]}
    profile = {
        "namespace": namespace,
        "submit": (*options, *conf_options(static), "--name", _NAME, "pyspark-shell"),
        "env": dict(environ),
        "cwd": str(Path.cwd()),
        "folder": str(data_dir / _FOLDER),
        "files": _stamps(job, environ),
    }
    own = {"event_log": event_log, "local": _is_local(master), "log": str(log)}
    properties = {"spark.app.name": name, **run["properties"]}
    return DriverPlan(profile=profile, run={**run, **own, "properties": properties})


def _is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _stamps(job: SparkJob, environ: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Of local files that a context reads as it starts."""
    named = (*job.needs.jars, *other_files(job), *(each.partition("#")[0] for each in job.needs.archives))
    folders = [environ[each] for each in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR") if environ.get(each)]
    found: dict[str, tuple[int, int]] = {}
    for path in (*map(Path, named), *(path for each in folders for path in Path(each).glob("*"))):
        try:
            stat = path.stat()
        except OSError:  # a URL, or gone: Spark says so
            continue
        found[os.fspath(path)] = (stat.st_mtime_ns, stat.st_size)
    return found

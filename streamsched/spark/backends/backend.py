"""The port of a cluster that runs drivers: each driver carries the label of its run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

#: What YARN's tags, labels of Kubernetes and names of its pods all accept.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


class DriverState(StrEnum):
    """`WAITING`: the cluster has it, but has not started it."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"

    @property
    def is_ended(self) -> bool:
        return self in (DriverState.SUCCEEDED, DriverState.FAILED, DriverState.KILLED)


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """`why`: what the cluster says, for people; empty when it says nothing. `exit_code`: when the cluster names it.
    `logs`: where people read what the driver prints; empty when that is not known."""

    state: DriverState
    why: str = ""
    exit_code: int | None = None
    logs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmission:
    """What a cluster is to run, without anything of the launcher's machine but files that `spark-submit` uploads.

    Attributes:
        run: id of the run.
        master: URL of the cluster manager.
        main: the Python file or the jar, as the cluster reaches it.
        main_class: of a jar, the class to start; empty: its own.
        arguments: its command line.
        conf: settings of Spark.
        env: variables of the driver.
        importable, files: paths or URLs that driver and executors get.
        user: who submits it; empty: this process's user.
        proxy_user: of YARN, as whom the driver runs; empty: as the submitting user.
    """

    run: str
    master: str
    main: str
    main_class: str = ""
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    importable: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    user: str = ""
    proxy_user: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of `spark-submit` for its class and its files."""
        lists = (("--py-files", self.importable), ("--files", self.files))
        named = ("--class", self.main_class) if self.main_class else ()
        return (*named, *(part for option, paths in lists if paths for part in (option, ",".join(paths))))

    @property
    def label(self) -> str:
        """The run in the cluster's words: its id where that is a valid label, else a hash of it."""
        return run_label(self.run)


class Backend(Protocol):
    """One cluster, for one run. All calls may be repeated; drivers are named as the cluster names them.

    Raises of every call:
        UnavailableError: the cluster does not answer; a retry may help.
    """

    async def find(self) -> str | None:
        """The driver of the run that the cluster has, ended ones included; None when it certainly has none.

        Raises:
            UnavailableError: also while that cannot be known yet.
        """
        ...

    async def submit(self) -> str:
        """Submits the run; returns its driver. Not idempotent: the caller has found none before.

        Raises:
            ConfigurationError: the cluster refuses it; nothing was submitted.
            UnavailableError: unknown whether it was submitted, unless `NotSentError`.
        """
        ...

    async def status(self, driver: str) -> DriverStatus:
        """The state of the driver. `FAILED` when the cluster has forgotten it, since its end is not known."""
        ...

    async def kill(self, driver: str) -> None:
        """Asks the cluster to end the driver and its executors. No error when it has ended."""
        ...

    async def logs(self, driver: str, read: Mapping[str, int]) -> Mapping[str, bytes]:
        """What the driver printed, by stream (`stdout`, `stderr`), after the bytes of each that were `read`, at most
        `MOST_LOG` of each; without what cannot be read now.
        """
        ...


#: Most bytes of a driver's output that one call reads.
MOST_LOG: Final = 1 << 20


def run_label(run: str) -> str:
    """The label of the run's driver in a cluster: the id, or where that is no label a digest of it."""
    return run if _LABEL.fullmatch(run) else f"run-{hashlib.sha256(run.encode()).hexdigest()[:40]}"

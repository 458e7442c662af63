"""Where the driver of a Spark program runs, and which definitions that permits."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.programs.spark_profile import SparkProfile

#: Spark's own setting, which `deploy_mode` replaces.
DEPLOY_MODE_SETTING: Final = "spark.submit.deployMode"
_CONNECT: Final = "sc://"
_STANDALONE: Final = "spark://"
_KUBERNETES: Final = "k8s://"
#: Fields that a server has, not its sessions.
_OF_SERVER: Final[tuple[str, ...]] = ("packages", "jars", "archives", "driver", "executors")
#: The values of fields that are not given.
_NOTHING: Final = ((), "", DriverSize(), ExecutorSize())
_NO_SECRETS: Final = "which only programs with deploy_mode client can have; this one has"


class DeployMode(StrEnum):
    """`client`: `spark-submit` beside the launcher, with the driver in it. `cluster`: the driver runs in the cluster.
    `connect`: a Python file beside the launcher whose queries a Spark Connect server executes.
    """

    CLIENT = "client"
    CLUSTER = "cluster"
    CONNECT = "connect"


class ClusterKind(StrEnum):
    """The cluster managers that can run a driver."""

    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


def deploy_mode(text: str, path: str) -> DeployMode:
    """The deploy mode of that name.

    Raises:
        InvalidDefinitionError: it is none.
    """
    try:
        return DeployMode(text)
    except ValueError:
        known = ", ".join(DeployMode)
        raise InvalidDefinitionError(path, f"must be one of {known} but is {abridge(text)}") from None


def cluster_kind(master: str, path: str = "$.master") -> ClusterKind:
    """The cluster manager of a master URL.

    Raises:
        InvalidDefinitionError: no driver can run there.
    """
    if master.startswith(_STANDALONE):
        return ClusterKind.STANDALONE
    if master == "yarn":
        return ClusterKind.YARN
    if master.startswith(_KUBERNETES):
        return ClusterKind.KUBERNETES
    raise InvalidDefinitionError(
        path,
        f"is {abridge(master)}, where no driver can run: deploy_mode cluster needs spark://host:port, yarn or "
        "k8s://https://host:port",
    )


def check_deployment(
    mode: DeployMode, path: str, *, master: str | None, module: str | None, conf: Mapping[str, str]
) -> None:
    """Checks a Spark program when it is deployed. Not part of `SparkJob` itself: programs stored before a rule must
    still be read. Without a `master` the installation's is checked when a run starts.

    Raises:
        InvalidDefinitionError: the definition does not fit the mode; has the path of the field.
    """
    said = conf.get(DEPLOY_MODE_SETTING)
    if said is not None and not (mode is DeployMode.CLIENT and said.strip().casefold() == DeployMode.CLIENT):
        raise InvalidDefinitionError(
            f'{path}.conf["{DEPLOY_MODE_SETTING}"]',
            f"is '{said}': leave it out and set deploy_mode of the program to client, cluster or connect",
        )
    if module is not None and mode is not DeployMode.CLIENT:
        raise InvalidDefinitionError(f"{path}.pymodule", f"is for deploy_mode client; with {mode} give main, a file")
    if master is not None:
        check_master(mode, master, f"{path}.master")


def check_needs_of_mode(mode: DeployMode, needs: SparkNeeds, path: str) -> None:
    """Checks that a program asks for nothing that its deploy mode cannot give it.

    Raises:
        InvalidDefinitionError: it does; has the path of the field.
    """
    match mode:
        case DeployMode.CLIENT:
            return
        case DeployMode.CLUSTER:
            refused: dict[str, str] = {"requirements": "; give an archive env.tar.gz#environment"}
        case DeployMode.CONNECT:
            refused = dict.fromkeys(_OF_SERVER, ": a Spark Connect server has its own")
            refused |= {"requirements": "", "main_class": ": a client of Spark Connect is a Python file"}
        case _:
            assert_never(mode)
    for name, instead in refused.items():
        if getattr(needs, name) not in _NOTHING:
            raise InvalidDefinitionError(f"{path}.{name}", f"cannot be given with deploy_mode {mode}{instead}")
    for where in needs.secrets().values():
        raise InvalidDefinitionError(f"{path}{where.removeprefix('$')}", f"is a secret, {_NO_SECRETS} {mode}")


def check_profile(mode: DeployMode, profile: SparkProfile, path: str, *, master: bool) -> None:
    """Checks that the deploy mode of a program that names the profile can give it the settings.

    Args:
        path: of the program.
        master: whether the program takes the profile's master.

    Raises:
        InvalidDefinitionError: it cannot; the path is that of the field `profile`.
    """
    where = f"{path}.profile"
    if master and profile.master is not None:
        check_master(mode, profile.master, where)
    if mode is DeployMode.CLIENT:
        return
    if profile.secret_conf:
        raise InvalidDefinitionError(where, f"'{profile.name}' has secrets, {_NO_SECRETS} {mode}")
    if mode is DeployMode.CONNECT and (profile.driver.conf() or profile.executors.conf()):
        raise InvalidDefinitionError(where, f"'{profile.name}' has sizes, but a Spark Connect server has its own")


def check_master(mode: DeployMode, master: str, path: str) -> None:
    """Raises:
    InvalidDefinitionError: the mode does not fit the master.
    """
    match mode:
        case DeployMode.CLIENT:
            if master.startswith(_CONNECT):
                raise InvalidDefinitionError(path, f"{abridge(master)} needs deploy_mode connect")
        case DeployMode.CLUSTER:
            cluster_kind(master, path)
        case DeployMode.CONNECT:
            if not master.startswith(_CONNECT):
                raise InvalidDefinitionError(
                    path,
                    f"is {abridge(master)}, but deploy_mode connect needs sc://host:port, or none for the "
                    "installation's Spark Connect server",
                )
        case _:
            assert_never(mode)

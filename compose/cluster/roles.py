"""The roles of the product as parts of a local cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from compose.cluster.folder import ClusterFolder
from compose.cluster.part import Part, answers_ok
from compose.cluster.ports import HOST

SHARDS: Final = 4
#: A secret of the launchers' environment that programs may refer to, where they have users.
SECRET: Final = {"WALL_KEY": "canary-key-51fe"}

#: Part → its role.
ROLES: Final[Mapping[str, str]] = {
    "worker-1": "worker",
    "worker-2": "worker",
    "launcher-1": "launcher",
    "launcher-2": "launcher",
    "api": "api",
}

_PURPOSE: Final = {
    "worker": "shards of the log",
    "launcher": "constraints, timers, runs",
    "api": "HTTP for commands and emitters",
}


def streamsched(*arguments: str) -> tuple[str, ...]:
    """The command that does what `streamsched …` does, with this Python."""
    return sys.executable, "-c", "from streamsched.cli.main import main; main()", *arguments


def role_environ(
    folder: ClusterFolder, ports: Mapping[str, int], *, database: str, broker: str, spark: bool, run_as: str = ""
) -> dict[str, str]:
    """The environment of every role. No other variable of the product is taken over."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")}
    master = {"STREAMSCHED_SPARK_MASTER": f"spark://{HOST}:{ports['spark-master']}"} if spark else {}
    walled = {} if not run_as else {"STREAMSCHED_RUN_AS": run_as, "STREAMSCHED_SECRETS": "*=env:WALL_*", **SECRET}
    return {
        **kept,
        **walled,
        "STREAMSCHED_DATABASE_URL": database,
        "STREAMSCHED_BROKER_URL": broker,
        "STREAMSCHED_SHARDS": str(SHARDS),
        "STREAMSCHED_DATA_DIR": str(folder.data),
        "STREAMSCHED_API_PORT": str(ports["api"]),
        "STREAMSCHED_OUTGOING_NETWORKS": "127.0.0.0/8,::1/128",
        "STREAMSCHED_EMIT_URL": f"http://{HOST}:{ports['api']}",
        "STREAMSCHED_LEASE": "3s",
        "STREAMSCHED_LOG_FORMAT": "json",
        **master,
    }


def role_parts(folder: ClusterFolder, ports: Mapping[str, int], environ: Mapping[str, str]) -> Sequence[Part]:
    """Two workers, two launchers, an API. Each is healthy when `/health/ready` answers 200."""
    return [_part(folder, name, role, ports[name], environ) for name, role in ROLES.items()]


def _part(folder: ClusterFolder, name: str, role: str, port: int, environ: Mapping[str, str]) -> Part:
    own = {} if role == "api" else {"STREAMSCHED_HEALTH_PORT": str(port)}
    url = f"http://{HOST}:{port}"
    return Part(
        name=name,
        purpose=_PURPOSE[role],
        where=url,
        command=streamsched(role),
        environ={**environ, **own},
        log=folder.log(name),
        healthy=answers_ok(f"{url}/health/ready"),
    )

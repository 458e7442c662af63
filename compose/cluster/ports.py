"""Where the parts of a local cluster listen: all on 127.0.0.1."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import compose.ports
from compose.cluster.errors import NotStartedError

HOST: Final = "127.0.0.1"

#: The usual port of each listener; a worker and a launcher listen for health checks and metrics only.
USUAL: Final[Mapping[str, int]] = {
    "kafka": 9092,
    "kafka-quorum": 9093,
    "api": 8765,
    "worker-1": 8771,
    "worker-2": 8772,
    "launcher-1": 8773,
    "launcher-2": 8774,
    "spark-master": 7077,
    "spark-master-ui": 8080,
    "spark-worker": 7078,
    "spark-worker-ui": 8081,
    "prometheus": 9090,
}


def usual_ports() -> Mapping[str, int]:
    """The usual ports.

    Raises:
        NotStartedError: another process listens on one of them. Kafka's are not checked: a Kafka that an earlier start
            left running is used.
    """
    for name, port in USUAL.items():
        if not name.startswith("kafka") and not _free(port):
            raise NotStartedError(f"port {port} of {name} is in use; --free-ports takes others")
    return USUAL


def free_ports() -> Mapping[str, int]:
    """Free ports, which stay free while a part restarts.

    Raises:
        NotStartedError: too few are free.
    """
    try:
        return dict(zip(USUAL, compose.ports.free_ports(len(USUAL)), strict=True))
    except OSError as exc:
        raise NotStartedError(str(exc)) from exc


def _free(port: int) -> bool:
    with socket.socket() as tried, suppress(OSError):
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind((HOST, port))
        return True
    return False

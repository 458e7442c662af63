"""Connections that notice a dead network: a broker that is slow is waited for, one that cannot be reached is not."""

from __future__ import annotations

import socket
from typing import Any, Final

from aiokafka.client import AIOKafkaClient

#: How long what was sent may stay unacknowledged by the other machine's TCP, in seconds. The broker behind it may be as
#: slow as `REQUEST_SECONDS` allow.
UNREACHABLE_SECONDS: Final = 5
#: On an idle connection: seconds until the first probe, and between probes.
_IDLE_SECONDS: Final = 3
_PROBE_SECONDS: Final = 2
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", _IDLE_SECONDS),
    ("TCP_KEEPINTVL", _PROBE_SECONDS),
    ("TCP_KEEPCNT", 2),
    ("TCP_USER_TIMEOUT", UNREACHABLE_SECONDS * 1000),
)


def watchful(client: AIOKafkaClient) -> AIOKafkaClient:
    """The client, whose connections from now on end when the network does. Without it, what was sent into a cut is
    repeated at ever longer intervals, and long after the cut is healed nothing has come through.
    """
    connect = client._get_conn

    async def connected(node_id: Any, **how: Any) -> Any:
        connection = await connect(node_id, **how)
        if connection is not None and connection._writer is not None and not getattr(connection, "_watched", False):
            _watch(connection._writer.get_extra_info("socket"))
            connection._watched = True
        return connection

    client._get_conn = connected
    return client


def _watch(wire: socket.socket) -> None:
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # Linux has all of them
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""How soon a connection ends whose network is broken. By TCP's defaults, a request that is sent into a broken network
waits until long after its repair, and a connection that only listens never learns of it.
"""

from __future__ import annotations

import socket
from typing import NamedTuple


class TcpKeepalive(NamedTuple):
    """Times of one connection, in seconds.

    Attributes:
        idle_s: without traffic until the first probe.
        interval_s: between probes.
        probes: how many may go unanswered.
        unacknowledged_s: for how long sent data may be unacknowledged.
    """

    idle_s: int
    interval_s: int
    probes: int
    unacknowledged_s: int

    def watch(self, connection: socket.socket) -> None:
        """Sets these times, as far as the system knows them (Linux knows all). A socket of another family is left
        alone.
        """
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        values = self.idle_s, self.interval_s, self.probes, self.unacknowledged_s * 1000
        for name, value in zip(("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT"), values, strict=True):
            if hasattr(socket, f"TCP_{name}"):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"), value)

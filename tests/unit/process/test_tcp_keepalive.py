"""A connection is told when to give up; one that is not of TCP is left alone."""

from __future__ import annotations

import socket

from streamsched.process.tcp_keepalive import TcpKeepalive

TIMES = TcpKeepalive(idle_s=3, interval_s=2, probes=4, unacknowledged_s=7)


def test_a_tcp_connection_has_these_times() -> None:
    with socket.socket(socket.AF_INET) as connection:
        TIMES.watch(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
        assert [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [3, 2, 4, 7000]


def test_a_local_socket_is_left_alone() -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        TIMES.watch(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0

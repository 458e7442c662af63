"""Children of a process that uses gRPC execute their programs."""

from __future__ import annotations

import subprocess
import sys

from tests.support.services import need_module

#: Without the call up to 3 of 100 children end by SIGSEGV or SIGABRT.
_STARTS = """
import collections, subprocess
from concurrent import futures
import grpc
from streamsched.process.supervision import disable_grpc_fork_handlers

disable_grpc_fork_handlers()
server = grpc.server(futures.ThreadPoolExecutor(2))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
grpc.channel_ready_future(grpc.insecure_channel(f"127.0.0.1:{port}")).result(30)
codes = collections.Counter(
    subprocess.Popen(["/bin/true"], preexec_fn=lambda: None).wait() for _ in range(400)
)
print(sorted(codes))
"""


def test_children_execute_their_programs_beside_grpc() -> None:
    need_module("grpc", "dapr")

    done = subprocess.run([sys.executable, "-c", _STARTS], capture_output=True, text=True, check=True, timeout=120)

    assert done.stdout == "[0]\n"

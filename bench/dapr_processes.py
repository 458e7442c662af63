"""The processes that speak Dapr's protocols in `bench.tasks`: ours, and Dapr's own scheduler."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.task_processes import product_process
from compose.dapr.programs import programs
from compose.ports import free_port

APP = "bench"


@contextmanager
def endpoint(url: str) -> Iterator[str]:
    """`streamsched dapr serve` for one app; the address of its gRPC API."""
    port = free_port()
    settings = {"dapr_app_id": APP, "dapr_http_port": free_port(), "dapr_grpc_port": port}
    with product_process(url, "dapr", "serve", **settings):
        yield f"127.0.0.1:{port}"


@contextmanager
def launcher(url: str) -> Iterator[str]:
    """`streamsched launcher` in place of Dapr's scheduler; its address."""
    address = f"127.0.0.1:{free_port()}"
    with product_process(url, "launcher", dapr_scheduler=address):
        yield address


@contextmanager
def dapr_scheduler() -> Iterator[str]:
    """Dapr's own scheduler, one process with its etcd inside; its address. It listens on all addresses."""
    client, peer, port = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="ss-bench-") as folder:
        flags = {
            "listen-address": "127.0.0.1",
            "port": port,
            "healthz-port": free_port(),
            "metrics-listen-address": "127.0.0.1",
            "metrics-port": free_port(),
            "etcd-client-listen-address": "127.0.0.1",
            "etcd-client-port": client,
            "etcd-initial-cluster": f"dapr-scheduler-server-0=http://127.0.0.1:{peer}",
            "etcd-data-dir": Path(folder) / "data",
            "override-broadcast-host-port": f"127.0.0.1:{port}",
        }
        command = (str(programs().scheduler), *(f"--{name}={value}" for name, value in flags.items()))
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()

"""An S3 server on loopback, and what tests of commits on it need. As a program, the server: it answers one request at a
time, since moto looks whether a file is there and then creates it, so two writers could both create it, unlike on S3.

    python -m tests.integration.tables.object_storage PORT
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.services import need_module

BUCKET = "lake"
_ROOT = Path(__file__).parents[3]


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """Options of `fsspec` for an S3 server with one bucket."""
    need_module("moto.server", "dev")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.integration.tables.object_storage", str(port)]
    server = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{url}/moto-api/", server)
        options = {"key": "x", "secret": "y", "endpoint_url": url, "client_kwargs": {"region_name": "eu-west-1"}}
        import fsspec

        fsspec.filesystem("s3", **options).mkdir(BUCKET)
        yield options
    finally:
        server.kill()
        server.wait()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert server.poll() is None, "moto_server ended"
            time.sleep(0.05)


def environ() -> dict[str, str]:
    """Of child processes: no settings of AWS from outside."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def _serve(port: int) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    inner, one_at_a_time = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def answer(request: Any, start_response: Any) -> Iterable[bytes]:
        with one_at_a_time:
            return [b"".join(inner(request, start_response))]

    os.environ["MOTO_PORT"] = str(port)
    run_simple("127.0.0.1", port, answer, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))

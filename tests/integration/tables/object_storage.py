"""An S3 server on loopback, and what tests of commits on it need."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.services import need_module

BUCKET = "lake"


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """Options of `fsspec` for an S3 server with one bucket."""
    need_module("moto.server", "dev")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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

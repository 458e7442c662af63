"""The whole of `streamsched dev`, killed and started again in its folder."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from compose.ports import free_port
from streamsched.store.server.embedded_server import stop_server
from tests.faults.sites.postgres_server import postmaster
from tests.support.dev_process import DevProcess


class DevSite:
    """Runs inside the block. `killed`: how often it was."""

    def __init__(self, folder: Path) -> None:
        self.process = DevProcess(folder)
        self.killed = 0
        self._port = free_port()
        self._apps = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()
        stop_server(self._data)

    def deploy(self, app: str) -> None:
        """`app`: the text of a definition."""
        self._apps += 1
        path = self.process.folder / f"app{self._apps}.py"
        path.write_text(app)
        said = self.process.run("deploy", path.name)
        assert said.code == 0, said

    def runs(self) -> Sequence[Mapping[str, Any]]:
        """The newest thousand."""
        return json.loads(self.process.run("run", "list", "--limit", "1000", "-o", "json").out)

    def kill(self, *, postgres: bool = True, runs: bool = False) -> None:
        """SIGKILL to all of it at once, and it starts again."""
        self.killed += 1
        server, dev = postmaster(self._data), self.process._process
        assert dev is not None
        parent = psutil.Process(dev.pid)
        parent.suspend()
        for each in parent.children(recursive=True) if runs else ():
            with suppress(psutil.NoSuchProcess):
                if "postgres" not in each.name():
                    each.kill()
        self.process.stop(signal.SIGKILL)
        if postgres:
            server.kill()
            server.wait(10)
        self._start()

    def _start(self) -> None:
        self.process.start("--port", str(self._port))

    @property
    def _data(self) -> Path:
        return self.process.state / "postgres"

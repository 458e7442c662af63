"""Benchmark of Spark's starts: seconds from an event to the first task of the program it starts, cold and warm.

    make bench NAME=spark_start        python -m bench.spark_start --rounds 5

A whole `streamsched dev` is given an event by HTTP; a schedule starts a program, whose first task reports when it runs.
`cold_s`: the program is started by `spark-submit` (`deploy_mode` client, `local[2]`). `prepared_s`: the same program in
a driver that was prepared and waits. `bare_submit_s`: the same file,
settings and master with `spark-submit` and without streamsched, from the start of the process. `warm_first_task_s`:
the program runs on the Spark Connect server of the machine, in a process that is forked with its libraries.
`bare_connect_s`: the same file, started by `python` against the same server. All in turns, after one of each that is
not counted; medians. Compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import orjson
import psutil

from bench.graph import show
from bench.installation import about
from compose.ports import free_port
from streamsched import __version__
from streamsched.spark.backends.connect.server import ConnectServer, connect_folder
from streamsched.spark.backends.connect.session import remote_url
from streamsched.spark.calls.prepared_driver import NAME

#: Writes the time at which its first task ran; `reflect` is called in the task.
_PROGRAM: Final = """
import os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
row = spark.range(1).selectExpr("reflect('java.lang.System', 'currentTimeMillis')").first()
with open(sys.argv[1] + ".new", "w") as file:
    file.write(row[0])
os.rename(sys.argv[1] + ".new", sys.argv[1])
spark.stop()
"""
_APP: Final = """
from streamsched import App, event

app = App("starts")
for name, mode, files in (("cold", "client", ["none.py"]), ("prepared", "client", []), ("connect", "connect", [])):
    program = app.spark(
        name, main="program.py", arguments=["{folder}/" + name], conf={{}}, deploy_mode=mode, py_files=files
    )
    app.schedule("start-" + name, program, when=event("go-" + name))
"""
_MASTER: Final = "local[2]"
_LONGEST_S: Final = 300.0
_STREAMSCHED: Final = (sys.executable, "-c", "from streamsched.cli.main import main; main()")


class Site:
    """A folder with `streamsched dev`, and the same program without it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".streamsched"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")}
        self.environ = {**kept, "SPARK_LOCAL_IP": "127.0.0.1"}
        self.starts: list[str | None] = []  # how the newest runs were started
        self._port = free_port()
        self._dev: Any = None
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self._home = Path(spec.origin).parent

    @contextlib.contextmanager
    def run_dev(self) -> Iterator[None]:
        """`streamsched dev` until the end of the block, with the app deployed."""
        (self.folder / "program.py").write_text(_PROGRAM)
        (self.folder / "none.py").write_text("")  # no driver is prepared for a program that brings Python files
        (self.folder / "app.py").write_text(_APP.format(folder=self.folder))
        environ = {**self.environ, "STREAMSCHED_SPARK_MASTER": _MASTER}
        with (self.folder / "dev.out").open("wb") as out:
            command = (*_STREAMSCHED, "dev", "--port", str(self._port))
            process = subprocess.Popen(command, cwd=self.folder, env=environ, stdout=out, stderr=out)
            self._dev = psutil.Process(process.pid)
        try:
            _until(self._deploy)
            yield
        finally:
            process.terminate()
            process.wait(60)

    def _deploy(self) -> bool:
        done = subprocess.run(
            (*_STREAMSCHED, "deploy", "app.py"), cwd=self.folder, env=self.environ, capture_output=True, check=False
        )
        return done.returncode == 0

    def by_event(self, mode: str) -> float:
        """Seconds from the request with the event to the first task."""
        event = {
            "id": uuid4().hex,
            "source": "bench",
            "time": datetime.now(UTC).isoformat(),
            "type": "custom",
            "data": {"name": f"go-{mode}"},
        }
        token = (self.state / "token").read_text().strip()

        def send() -> None:
            url, headers = f"http://127.0.0.1:{self._port}/v1/events", {"Authorization": f"Bearer {token}"}
            httpx.post(url, json=event, headers=headers, timeout=60).raise_for_status()

        taken = self._seconds(mode, send)
        self._until_ended(token)
        return taken

    def by_prepared(self) -> float:
        """Seconds from the request with the event to the first task, in a driver that waits."""
        while True:
            _until(lambda: self.waiting_driver() is not None)
            taken = self.by_event("prepared")
            if self.starts[0] == "prepared":
                return taken

    def waiting_driver(self) -> tuple[int, int] | None:
        """Resident bytes of the JVM and the Python of a driver that waits; None without one."""
        for each in self._dev.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if each.name() == NAME and len(children := each.children()) == 1:
                    return children[0].memory_info().rss, each.memory_info().rss
        return None

    def by_submit(self) -> float:
        """Seconds from the start of `spark-submit` to the first task."""
        conf = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        environ = {**self.environ, "SPARK_HOME": str(self._home), "PYSPARK_PYTHON": sys.executable}
        return self._bare(
            (
                *(str(self._home / "bin" / "spark-submit"), "--master", _MASTER, "--deploy-mode", "client"),
                *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
                *(str(self.folder / "program.py"), str(self.folder / "bare")),
            ),
            environ,
        )

    def by_python(self) -> float:
        """Seconds from the start of a Python process that uses the same Spark Connect server."""
        server = ConnectServer.read(connect_folder(self.state))
        assert server is not None
        environ = {
            **self.environ,
            "SPARK_REMOTE": remote_url(server.url, uuid4().hex),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": server.token,
        }
        return self._bare((sys.executable, str(self.folder / "program.py"), str(self.folder / "bare")), environ)

    def _bare(self, command: Sequence[str], environ: dict[str, str]) -> float:
        started: list[subprocess.Popen[bytes]] = []
        with (self.folder / "bare.log").open("wb") as log:
            taken = self._seconds(
                "bare", lambda: started.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
            )
        assert started[0].wait(120) == 0
        return taken

    def _seconds(self, name: str, start: Callable[[], object]) -> float:
        path = self.folder / name
        path.unlink(missing_ok=True)
        began = time.time()  # tasks report wall-clock times
        start()
        _until(path.exists)
        return int(path.read_text()) / 1000 - began

    def _until_ended(self, token: str) -> None:
        """Until no run is active, so that measures do not disturb each other."""

        def have_ended() -> bool:
            url, headers = f"http://127.0.0.1:{self._port}/v1/runs?limit=5", {"Authorization": f"Bearer {token}"}
            found: list[dict[str, Any]] = httpx.get(url, headers=headers, timeout=60).json()["runs"]
            self.starts = [each["start"] for each in found]
            assert all(each["state"] not in ("FAILED", "LOST") for each in found), found
            return all(each["state"] == "COMPLETED" for each in found)

        _until(have_ended)


def _until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not found():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)


def compare(site: Site, rounds: int) -> dict[str, float]:
    """Measures all, in turns."""
    measures: dict[str, Callable[[], float]] = {
        "cold_s": lambda: site.by_event("cold"),
        "prepared_s": site.by_prepared,
        "bare_submit_s": site.by_submit,
        "warm_first_task_s": lambda: site.by_event("connect"),
        "bare_connect_s": site.by_python,
    }
    found: dict[str, list[float]] = {name: [] for name in measures}
    first = site.by_event("connect")
    print(f"first over Connect, which starts the server        {first:.1f} s", flush=True)
    while site.starts[0] != "warm":  # until a run has reported its libraries
        site.by_event("connect")
    print(f"first of the program whose drivers are prepared     {site.by_event('prepared'):.1f} s", flush=True)
    for each in measures.values():
        each()
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
        print("  ".join(f"{name} {taken[-1]:.2f}" for name, taken in found.items()), flush=True)
    result = {name: statistics.median(taken) for name, taken in found.items()}
    for name, taken in found.items():
        show(name, taken, "s")
    _until(lambda: site.waiting_driver() is not None)
    jvm, python = site.waiting_driver() or (0, 0)
    print(f"a driver that waits takes {jvm >> 20} MB (JVM) and {python >> 20} MB (Python)")
    bare = result["bare_submit_s"]
    return {
        **result,
        "cold_over_bare": result["cold_s"] / bare,
        "prepared_over_bare": result["prepared_s"] / bare,
        "waiting_driver_mb": jvm / 2**20,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"machine  {about(('pyspark',))}, streamsched {__version__}; load {load}")
    print(f"command  python -m bench.spark_start {' '.join(sys.argv[1:] if argv is None else argv)}".rstrip())
    print(f"rounds   {args.rounds}; median (spread)\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="ss-spark-", ignore_cleanup_errors=True) as folder:
        site = Site(Path(folder))
        with site.run_dev():
            results = compare(site, args.rounds)
            server = ConnectServer.read(connect_folder(site.state))
        if server is not None:
            os.kill(server.keeper, 15)
    print("RESULT " + orjson.dumps({name: round(value, 3) for name, value in results.items()}).decode())


if __name__ == "__main__":
    main()

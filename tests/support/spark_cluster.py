"""A standalone Spark cluster of real processes, from PySpark's own package: a master with REST submission, a worker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from compose.ports import free_ports

_READY_S = 240.0


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster. `worker`: the process of its worker; `work`: its folder of logs."""

    master: str
    rest_port: int
    ui_port: int
    worker: int
    work: Path

    @property
    def conf(self) -> dict[str, str]:
        """Settings with which a program's runs reach it."""
        return {
            "spark.master.rest.port": str(self.rest_port),
            "spark.master.ui.port": str(self.ui_port),
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.cores.max": "1",
            "spark.ui.enabled": "false",
        }

    def state(self) -> dict[str, Any]:
        """What the master shows."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ui_port}/json/", timeout=60) as answer:
            return json.loads(answer.read())

    def processes_of_applications(self) -> list[str]:
        """The command lines of the drivers and executors of applications, and of their Python processes."""
        found: list[str] = []
        for process in psutil.Process(self.worker).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found.append(" ".join(process.cmdline()))
        return found

    def runs_of_drivers(self) -> list[tuple[str, str]]:
        """The run of each driver it has had, as the command at the beginning of its log has it, and the state."""
        found: list[tuple[str, str]] = []
        for driver, state in self.drivers().items():
            log = self.work / driver / "stderr"
            label = re.search(r"-Dspark\.streamsched\.run=([^\"]+)", log.read_text() if log.exists() else "")
            found.append((label[1] if label else driver, state))
        return found

    def drivers(self) -> dict[str, str]:
        """The state of each driver it has had."""
        state = self.state()
        return {each["id"]: each["state"] for each in [*state["completeddrivers"], *state["activedrivers"]]}


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster until the end of the block."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    port, rest, ui, worker_port, worker_ui = free_ports(5)
    rest_options = "".join(
        f" -Dspark.master.rest.{name}={value}"
        for name, value in (("enabled", "true"), ("host", "127.0.0.1"), ("port", rest))
    )
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": rest_options.strip(),
    }
    master = f"spark://127.0.0.1:{port}"
    options = ("--host", "127.0.0.1", "--port", str(worker_port), "--webui-port", str(worker_ui))
    size = ("--cores", "4", "--memory", "3g", master)
    commands = {
        "master.Master": ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)),
        "worker.Worker": (*options, *size),
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name, arguments in commands.items():
            with (folder / f"{name}.log").open("ab") as log:
                processes.append(
                    subprocess.Popen(
                        [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                        stdout=log,
                        stderr=log,
                        env=env,
                    )
                )
        cluster = SparkCluster(master, rest, ui, processes[-1].pid, folder / "work")
        _until_ready(cluster, processes)
        yield cluster
    finally:
        for each in processes:
            each.terminate()
        for each in processes:
            try:
                each.wait(20)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()


def _until_ready(cluster: SparkCluster, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        assert all(each.poll() is None for each in processes), "a process of the cluster has ended"
        try:
            if cluster.state()["aliveworkers"] == 1:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("the cluster has not started")

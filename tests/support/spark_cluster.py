"""A standalone Spark cluster of real processes, from PySpark's own package: a master with REST submission, a worker."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compose.ports import free_ports

_READY_S = 240.0


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster."""

    master: str
    rest_port: int
    ui_port: int

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
    cluster = SparkCluster(f"spark://127.0.0.1:{port}", rest, ui)
    options = ("--host", "127.0.0.1", "--port", str(worker_port), "--webui-port", str(worker_ui))
    size = ("--cores", "4", "--memory", "3g", cluster.master)
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

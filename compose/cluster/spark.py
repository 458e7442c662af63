"""A Spark standalone cluster, master and one worker, from PySpark's wheel. Needs Java 17."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import httpx

from compose.cluster.errors import NotStartedError
from compose.cluster.folder import ClusterFolder
from compose.cluster.part import HealthQuestion, Part
from compose.cluster.ports import HOST


def spark_parts(folder: ClusterFolder, ports: Mapping[str, int]) -> tuple[Part, Part]:
    """Master and worker. The master is healthy when it answers, the worker when the master counts it as alive.

    Raises:
        NotStartedError: PySpark or Java is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotStartedError("PySpark is not installed: pip install 'streamsched[spark]', or --without-spark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NotStartedError(
            "Spark needs Java 17 (Debian: apt-get install openjdk-17-jre-headless), or --without-spark"
        )
    home = Path(spec.origin).parent
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "SPARK_WORKER_DIR": str(folder.path / "spark"),
    }
    master, state = f"spark://{HOST}:{ports['spark-master']}", f"http://{HOST}:{ports['spark-master-ui']}/json/"
    run, package = str(home / "bin" / "spark-class"), "org.apache.spark.deploy"
    listen = ("--host", HOST, "--port")
    return (
        Part(
            name="spark-master",
            purpose="Spark's master",
            where=master,
            command=(
                *(run, f"{package}.master.Master", *listen, str(ports["spark-master"])),
                *("--webui-port", str(ports["spark-master-ui"])),
            ),
            environ=environ,
            log=folder.log("spark-master"),
            healthy=_alive_workers(state, at_least=0),
        ),
        Part(
            name="spark-worker",
            purpose="executors of Spark jobs",
            where=f"http://{HOST}:{ports['spark-worker-ui']}",
            command=(
                *(run, f"{package}.worker.Worker", *listen, str(ports["spark-worker"])),
                *("--webui-port", str(ports["spark-worker-ui"]), "--cores", "2", "--memory", "2g", master),
            ),
            environ=environ,
            log=folder.log("spark-worker"),
            healthy=_alive_workers(state, at_least=1),
        ),
    )


def _alive_workers(url: str, *, at_least: int) -> HealthQuestion:
    async def ask(client: httpx.AsyncClient) -> str | None:
        try:
            alive = (await client.get(url)).json()["aliveworkers"]
        except (httpx.HTTPError, ValueError, KeyError) as exc:
            return f"{url}: {type(exc).__name__}"
        return None if alive >= at_least else f"{url}: {alive} workers are alive"

    return ask

"""A YARN cluster of one node in one real process, from Hadoop's own test parts, which Maven downloads once (119 MB)."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compose.ports import free_ports
from tests.support.java_classes import compile_class

_HERE = Path(__file__).parent / "yarn"
_READY_S = 600.0
_OPEN = (
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED"),
    *("--add-exports", "java.base/sun.net.dns=ALL-UNNAMED"),
)


@dataclass(frozen=True, slots=True)
class YarnCluster:
    """A running cluster. `conf_dir`: what `HADOOP_CONF_DIR` must be."""

    conf_dir: Path
    web: int

    def conf(self, spark_home: Path, python: str) -> dict[str, str]:
        """Settings with which a program's runs use it, without HDFS."""
        return {
            "spark.yarn.jars": f"local:{spark_home}/jars/*",
            "spark.yarn.stagingDir": f"file://{self.conf_dir}/staging",
            "spark.executorEnv.PYSPARK_PYTHON": python,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
        }

    def runs_of_applications(self) -> list[tuple[str, str]]:
        """The tag of each application it has had, and its final status."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/ws/v1/cluster/apps", timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        apps = (found.get("apps") or {}).get("app") or []
        return [(each["applicationTags"], each["finalStatus"]) for each in apps]


def download_jars(pom: Path, jars: Path) -> None:
    """What a `pom.xml` names, and what that needs, by Maven into a new folder; nothing when the folder exists."""
    if jars.exists():
        return
    unfinished = jars.with_name(f"{jars.name}.new")  # an interrupted download is not taken for a whole one
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={unfinished}")
    subprocess.run(("mvn", "-q", "-B", "-f", str(pom), *copy), check=True)
    unfinished.rename(jars)


@contextmanager
def yarn_cluster(folder: Path, jars: Path) -> Iterator[YarnCluster]:
    """A cluster until the end of the block. `jars`: where Maven has put, or now puts, its jars."""
    download_jars(_HERE / "pom.xml", jars)
    compile_class(_HERE / "MiniYarn.java", jars, folder)
    (conf_dir := folder / "conf").mkdir()
    (conf_dir / "staging").mkdir()
    ports = free_ports(8)
    command = (
        "java",
        "-Xmx512m",
        *_OPEN,
        "-cp",
        f"{folder}:{jars}/*",
        "MiniYarn",
        str(conf_dir),
        *map(str, ports),
    )
    with (folder / "yarn.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env={**os.environ})
    try:
        deadline = time.monotonic() + _READY_S
        while not (conf_dir / "yarn-site.xml").exists():
            assert process.poll() is None, (folder / "yarn.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the cluster has not started"
            time.sleep(0.2)
        yield YarnCluster(conf_dir, ports[4])
    finally:
        process.terminate()
        process.wait(60)

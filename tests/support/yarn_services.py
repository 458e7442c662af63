"""YARN's services framework beside a real YARN: `yarn app -launch …`, and the ZooKeeper that it registers services in.

Hadoop 3.5.0 was published without the framework, so client and service master are those of 3.4.2; Maven downloads them
once (80 MB).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from compose.ports import free_port
from tests.support.yarn_cluster import YarnCluster, download_jars

_POM = Path(__file__).parent / "yarn" / "services.xml"
_ZOOKEEPER_READY_S = 60.0
_LOG4J = """log4j.rootLogger=INFO,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n
"""


@dataclass(frozen=True, slots=True)
class YarnServices:
    """The command `yarn app`, and what YARN's REST says of the services' containers.

    Attributes:
        folder: the client's configuration (`conf`) and its log (`client.log`).
        jars: those of the framework.
    """

    cluster: YarnCluster
    folder: Path
    jars: Path

    def app(self, *arguments: str) -> str:
        """What `yarn app …` prints. Raises CalledProcessError when it fails."""
        conf = self.folder / "conf"
        client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
        command = ("java", "-Xmx256m", "-cp", f"{conf}:{self.jars}/*", client, "app", *arguments)
        with (self.folder / "client.log").open("ab") as log:
            environ = {**os.environ, "HADOOP_CONF_DIR": str(conf)}
            return subprocess.run(
                command, check=True, stdout=subprocess.PIPE, stderr=log, env=environ, text=True
            ).stdout

    def stable(self, name: str) -> bool:
        """Whether the service's master says that all containers of all components run."""
        try:
            return json.loads(self.app("-status", name)).get("state") == "STABLE"
        except (subprocess.CalledProcessError, json.JSONDecodeError):
            return False  # the master is not there yet

    def containers(self, name: str) -> list[str]:
        """Ids of the running containers of a service's newest attempt: its master's, then those of its components."""
        apps = (self._get("apps?states=RUNNING").get("apps") or {}).get("app") or []
        found = [each["id"] for each in apps if each["name"] == name]
        if not found:
            return []
        attempts = self._get(f"apps/{found[0]}/appattempts")["appAttempts"]["appAttempt"]
        running = [each["appAttemptId"] for each in attempts if each["appAttemptState"] == "RUNNING"]
        if not running:
            return []
        containers = self._get(f"apps/{found[0]}/appattempts/{running[0]}/containers").get("container") or []
        return sorted(each["containerId"] for each in containers if each["containerState"] == "RUNNING")

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.cluster.web}/ws/v1/cluster/{path}", timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


@contextmanager
def yarn_services(cluster: YarnCluster, folder: Path, jars: Path) -> Iterator[YarnServices]:
    """The framework until the end of the block. `jars`: where Maven has put, or now puts, its jars."""
    download_jars(_POM, jars)
    port = free_port()
    (conf := folder / "conf").mkdir(parents=True)
    (conf / "log4j.properties").write_text(_LOG4J)
    more = {"hadoop.tmp.dir": f"{folder}/tmp"}
    _copy_with(more, cluster.conf_dir / "core-site.xml", conf)
    more = {
        "yarn.service.base.path": f"file://{folder}/services",
        "yarn.application.admin.client.class.yarn-service": "org.apache.hadoop.yarn.service.client.ServiceClient",
        "hadoop.registry.zk.quorum": f"127.0.0.1:{port}",
    }
    _copy_with(more, cluster.conf_dir / "yarn-site.xml", conf)
    (folder / "services").mkdir()
    with _zookeeper(folder, jars, port):
        yield YarnServices(cluster, folder, jars)


def _copy_with(more: Mapping[str, str], file: Path, into: Path) -> None:
    """A file of Hadoop's configuration, with more properties, which count."""
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in more.items()
    )
    (into / file.name).write_text(file.read_text().replace("</configuration>", f"{properties}</configuration>"))


@contextmanager
def _zookeeper(folder: Path, jars: Path, port: int) -> Iterator[None]:
    """A ZooKeeper of one node, on loopback, until the end of the block."""
    settings = (f"dataDir={folder}/zookeeper", f"clientPort={port}", "clientPortAddress=127.0.0.1")
    (folder / "zoo.cfg").write_text("\n".join((*settings, "admin.enableServer=false", "")))
    server = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = ("java", "-Xmx128m", "-cp", f"{folder}/conf:{jars}/*", server, str(folder / "zoo.cfg"))
    with (folder / "zookeeper.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _ZOOKEEPER_READY_S
        while not _listens(port):
            assert process.poll() is None, (folder / "zookeeper.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "ZooKeeper has not started"
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False

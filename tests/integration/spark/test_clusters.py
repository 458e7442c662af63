"""Probes: a real Spark standalone master and worker; YARN's and Kubernetes' documented JSON from a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from compose.ports import free_ports
from streamsched.domain.constraints.load import ClusterReading
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.spark.clusters import open_probe
from tests.support.services import need_module


@pytest.fixture
def standalone(java: None, tmp_path: Path) -> Iterator[str]:
    """URL of the UI of a master with one worker of 3 cores and 1 GiB."""
    need_module("pyspark", "spark")
    import pyspark

    home = Path(pyspark.__file__).parent
    port, ui = free_ports(2)
    environ = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}

    def start(kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments],
            env=environ,
            stdout=(tmp_path / "spark.log").open("ab"),
            stderr=subprocess.STDOUT,
        )

    master = start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui))
    worker = start(
        "worker.Worker",
        *("--host", "127.0.0.1", "--cores", "3", "--memory", "1g", "--webui-port", "0"),
        *("--work-dir", str(tmp_path / "work"), f"spark://127.0.0.1:{port}"),
    )
    try:
        yield f"http://127.0.0.1:{ui}"
    finally:
        for process in (worker, master):
            process.kill()
            process.wait()


@pytest.mark.long
@pytest.mark.spark
async def test_a_standalone_master_says_what_its_workers_have_left(standalone: str) -> None:
    probe = open_probe(f"spark+{standalone}")
    async with asyncio.timeout(200):
        while True:
            try:
                reading = await probe.read()
                if reading.free_cores:
                    break
            except UnavailableError:  # it is still coming up
                pass
            await asyncio.sleep(0.5)

    assert reading == ClusterReading(3.0, 1 << 30, 0)


class Answers(ThreadingHTTPServer):
    """Says JSON by path, and remembers who asked with what."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = said
        self.tokens: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Answers)
        self.server.tokens.append(self.headers["Authorization"])
        found = self.server.said.get(self.path)
        body = json.dumps(found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - as the base class has it


#: As Hadoop 3.4's "ResourceManager REST API's" prints it, shortened.
YARN = {"clusterMetrics": {"appsRunning": 2, "availableMB": 17408, "availableVirtualCores": 7, "totalMB": 20480}}
#: As the API reference of Kubernetes 1.2x has a ResourceQuotaList and a PodList, shortened.
QUOTAS = {
    "kind": "ResourceQuotaList",
    "items": [
        {"status": {"hard": {"requests.cpu": "10", "requests.memory": "20Gi"}, "used": {"requests.cpu": "2500m"}}},
        {"status": {"hard": {"requests.cpu": "9", "pods": "5"}, "used": {"requests.cpu": "3", "pods": "1"}}},
    ],
}
PODS = {"kind": "PodList", "items": [{"metadata": {"name": "driver"}}]}
SPACE = "/api/v1/namespaces/jobs"
SAID = {
    "/ws/v1/cluster/metrics": YARN,
    f"{SPACE}/resourcequotas": QUOTAS,
    f"{SPACE}/pods?labelSelector=spark-role%3Ddriver&fieldSelector=status.phase%3DRunning": PODS,
    "/json/": {"status": "STANDBY", "workers": [], "activeapps": []},
}


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers(SAID) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_yarn_says_what_is_available(answers: Answers) -> None:
    assert await open_probe(f"yarn+{answers.url}").read() == ClusterReading(7.0, 17408 << 20, 2)


async def test_kubernetes_leaves_what_the_scarcest_quota_leaves(answers: Answers, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    probe = open_probe(f"k8s+{answers.url}?namespace=jobs&token_file={tmp_path / 'token'}")

    assert await probe.read() == ClusterReading(6.0, 20 << 30, 1)
    assert answers.tokens == ["Bearer secret", "Bearer secret"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("spark+{}", "is STANDBY"),
        ("yarn+{}/elsewhere", "404"),
        ("k8s+{}?namespace=other", "404"),
    ],
)
async def test_what_is_no_answer_is_said_with_its_place(answers: Answers, url: str, said: str) -> None:
    with pytest.raises(UnavailableError, match=said):
        await open_probe(url.format(answers.url)).read()


async def test_an_answer_that_was_not_expected_names_what_is_missing(answers: Answers) -> None:
    answers.said = {"/ws/v1/cluster/metrics": {"metrics": {}}}
    with pytest.raises(UnavailableError, match=r"unexpected answer from .*: KeyError"):
        await open_probe(f"yarn+{answers.url}").read()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mesos://host", "no probe for 'mesos://'; known: .*yarn"),
        ("yarn+http:///x", "has no host"),
        ("k8s+http://host?token=x", "'token' is not one of namespace, token_file, ca_file"),
    ],
)
def test_a_wrong_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        open_probe(url)

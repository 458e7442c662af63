"""Backends by recorded conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.spark.backends.backend import DriverState, DriverStatus, DriverSubmission, run_label
from streamsched.spark.backends.connect.program import ConnectProgram
from streamsched.spark.backends.connect.session import check_server, remote_url, session_id
from streamsched.spark.backends.kubernetes import KubernetesBackend, kubernetes_settings
from streamsched.spark.backends.remote_driver import RemoteTiming
from streamsched.spark.backends.requests import Cluster
from streamsched.spark.backends.standalone import StandaloneBackend, creation
from streamsched.spark.backends.submit_process import SubmitProcess, command_line, properties
from streamsched.spark.backends.yarn import YarnBackend, resource_managers, yarn_settings
from streamsched.spark.command import RunEnvironment
from streamsched.spark.files import RunFiles
from streamsched.spark.warm.child import ProcessStarter

RUN = "default.shop.join.1.1.r1"
QUICK = RemoteTiming(poll=0.001, reach=0.05, settle=0.001, kill=0.05)


class Submits(SubmitProcess):
    """Counts submissions; `then` changes the far end."""

    def __init__(self, code: int, then: Any = None, log: Path = Path("unused")) -> None:
        super().__init__(Path("spark-submit"), {}, log)
        self.code, self.then, self.settings = code, then, [{}]

    async def run(self, submission: DriverSubmission, conf: Mapping[str, str]) -> int:
        self.settings.append(dict(conf))
        if self.then is not None:
            self.then()
        return self.code


def submission(master: str, **given: Any) -> DriverSubmission:
    return DriverSubmission(run=RUN, master=master, main="local:///opt/join.py", **given)


def recorded(answers: Mapping[str, Any], asked: list[str]) -> httpx.MockTransport:
    """Answers by method and path with query; others are 404."""

    def answer(request: httpx.Request) -> httpx.Response:
        key = f"{request.method} {request.url.raw_path.decode()}"
        asked.append(key)
        found = answers.get(key)
        if isinstance(found, bytes):
            return httpx.Response(200, content=found)
        return httpx.Response(404, json={}) if found is None else httpx.Response(200, json=found)

    return httpx.MockTransport(answer)


def test_a_label_is_the_run_or_a_hash_of_it() -> None:
    assert run_label("default.shop.join.1.1.r1") == "default.shop.join.1.1.r1"
    for odd in ("default.Shop.join.r1", "a_b.r1", "x" * 64, "ends."):
        label = run_label(odd)
        assert label.startswith("run-")
        assert len(label) <= 63
    assert run_label("a_b") != run_label("a_c")


# Kubernetes: the command line and the answers of an API server, as its reference has them.

PODS = "/api/v1/namespaces/jobs/pods"
SELECTED = f"GET {PODS}?labelSelector=streamsched/run%3D{RUN}%2Cspark-role%3Ddriver"


def kubernetes(answers: dict[str, Any], submits: Submits, asked: list[str]) -> KubernetesBackend:
    given = submission("k8s://https://api:6443", conf={"spark.kubernetes.namespace": "jobs"}, env={"A": "b"})
    return KubernetesBackend(given, submits, recorded(answers, asked))


def test_the_command_line_for_kubernetes() -> None:
    given = submission("k8s://https://api:6443", arguments=("x",), importable=("https://host/dep.zip",), env={"A": "b"})

    assert command_line(Path("spark-submit"), given, Path("/tmp/s")) == (
        *("spark-submit", "--master", "k8s://https://api:6443", "--deploy-mode", "cluster", "--name", RUN),
        *("--properties-file", "/tmp/s", "--load-spark-defaults", "--py-files", "https://host/dep.zip"),
        *("local:///opt/join.py", "x"),
    )
    settings = kubernetes_settings(given)
    pod = settings.pop("spark.kubernetes.driver.pod.name")
    assert settings == {
        "spark.kubernetes.driver.label.streamsched/run": RUN,
        "spark.kubernetes.driver.annotation.streamsched/run": RUN,
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driverEnv.A": "b",
    }
    assert pod.startswith("streamsched-")
    assert pod.endswith("-driver")


async def test_a_pod_is_submitted_once_watched_and_deleted(tmp_path: Path) -> None:
    answers: dict[str, Any] = {SELECTED: {"items": []}}
    pod = {"metadata": {"name": "p"}}

    def created() -> None:
        answers[SELECTED] = {"items": [pod]}

    asked: list[str] = []
    submits = Submits(0, created)
    backend = kubernetes(answers, submits, asked)

    assert await backend.find() is None
    assert await backend.submit() == "p"
    assert await backend.submit() == "p"
    assert len(submits.settings) == 2  # the empty one, and one submission
    ended = [{"state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]
    for phase, state in (("Pending", "waiting"), ("Running", "running"), ("Succeeded", "succeeded")):
        answers[f"GET {PODS}/p"] = {**pod, "status": {"phase": phase}}
        assert (await backend.status("p")).state == state
    answers[f"GET {PODS}/p"] = {**pod, "status": {"phase": "Failed", "containerStatuses": ended}}
    assert await backend.status("p") == DriverStatus(
        DriverState.FAILED, "pod p is Failed. Error", 3, "kubectl logs --namespace jobs p"
    )
    answers[f"GET {PODS}/p/log?limitBytes={5 + (1 << 20)}"] = b"hello world"
    assert await backend.logs("p", {"stdout": 5}) == {"stdout": b" world"}
    await backend.kill("p")
    assert f"DELETE {PODS}/p" in asked
    del answers[f"GET {PODS}/p"]
    assert (await backend.status("p")).state is DriverState.KILLED


async def test_a_refused_submission_to_kubernetes_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("Exception in thread main org.apache.spark.SparkException: no image\n")
    backend = kubernetes({SELECTED: {"items": []}}, Submits(1, log=tmp_path / "log"), [])

    with pytest.raises(ConfigurationError, match=r"exit code 1: .*no image"):
        await backend.submit()


# YARN


async def test_an_application_is_looked_up_by_its_tag(tmp_path: Path) -> None:
    base = "/ws/v1/cluster/apps"
    answers: dict[str, Any] = {f"GET {base}?applicationTags={RUN}": {"apps": None}}
    backend = YarnBackend(submission("yarn"), ["http://rm:8088"], Submits(1), Cluster(transport=recorded(answers, [])))
    assert await backend.find() is None
    apps = [{"id": "application_1", "startedTime": 1}, {"id": "application_2", "startedTime": 2}]
    answers[f"GET {base}?applicationTags={RUN}"] = {"apps": {"app": apps}}
    assert await backend.find() == await backend.submit() == "application_2"
    for state, final, expected in (
        ("ACCEPTED", "UNDEFINED", "waiting"),
        ("RUNNING", "UNDEFINED", "running"),
        ("FINISHED", "SUCCEEDED", "succeeded"),
        ("FINISHED", "FAILED", "failed"),
        ("FAILED", "FAILED", "failed"),
        ("KILLED", "KILLED", "killed"),
    ):
        answers[f"GET {base}/application_2"] = {"app": {"state": state, "finalStatus": final, "diagnostics": "d"}}
        assert (await backend.status("application_2")).state == expected
    del answers[f"GET {base}/application_2"]
    assert "not known" in (await backend.status("application_2")).why


def test_settings_for_yarn_carry_the_run_and_no_secret_is_an_argument() -> None:
    given = submission("yarn", conf={"spark.yarn.tags": "mine"}, env={"STREAMSCHED_TOKEN": "secret"})

    settings = yarn_settings(given)

    assert settings["spark.yarn.tags"] == f"{RUN},mine"
    assert settings["spark.yarn.maxAppAttempts"] == "1"
    assert settings["spark.yarn.appMasterEnv.STREAMSCHED_TOKEN"] == "secret"
    assert not any("secret" in part for part in command_line(Path("spark-submit"), given, Path("/tmp/s")))


def test_managers_are_read_from_hadoops_configuration(tmp_path: Path) -> None:
    def site(**values: str) -> tuple[str, ...]:
        named = {name.replace("_", "."): value for name, value in values.items()}
        rows = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in named.items())
        (tmp_path / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
        return resource_managers({"HADOOP_CONF_DIR": str(tmp_path)})

    assert site(yarn_resourcemanager_webapp_address="rm:1234") == ("http://rm:1234",)
    host = "${yarn.resourcemanager.hostname}:8090"
    assert site(yarn_resourcemanager_hostname="rm", yarn_resourcemanager_webapp_address=host) == ("http://rm:8090",)
    assert site(yarn_resourcemanager_hostname="rm") == ("http://rm:8088",)
    with pytest.raises(ConfigurationError, match="HADOOP_CONF_DIR"):
        resource_managers({})


def test_properties_keep_what_has_a_meaning_in_them() -> None:
    assert properties({"a b": " c\\d\n", "x:y=z": "1"}) == "a\\ b=\\ c\\\\d\\n\nx\\:y\\=z=1\n"


# Standalone

MASTER = "spark://m:7077"


def driver(name: str, state: str, worker: str = "w", at: int = 1) -> dict[str, Any]:
    return {"id": name, "state": state, "worker": worker, "starttime": str(at)}


def standalone(drivers: Sequence[dict[str, Any]], logs: Mapping[str, bytes]) -> StandaloneBackend:
    workers = [{"id": "w", "webuiaddress": "http://w:8081"}]
    answers: dict[str, Any] = {
        "GET /json/": {"status": "ALIVE", "workers": workers, "activedrivers": drivers, "completeddrivers": []}
    }
    for name, content in logs.items():
        query = f"driverId={name}&logType=stderr&offset=0&byteLength=65536"
        answers[f"GET /log/?{query}"] = b"==== Bytes 0-9 of 9 of /w/stderr ====\n" + content
    return StandaloneBackend(submission(MASTER), Cluster(transport=recorded(answers, [])))


async def test_a_driver_is_found_by_the_label_in_its_command() -> None:
    mine = f'Launch Command: "java" "-Dspark.streamsched.run={RUN}" "x"\n'.encode()
    other = mine.replace(b".r1", b".r11")

    assert await standalone([], {}).find() is None
    assert await standalone([driver("d1", "RUNNING")], {"d1": other}).find() is None
    assert (
        await standalone([driver("d1", "RUNNING"), driver("d2", "FINISHED")], {"d1": other, "d2": mine}).find() == "d2"
    )


@pytest.mark.parametrize(("state", "worker"), [("SUBMITTED", "None"), ("RUNNING", "w")])
async def test_while_a_driver_has_not_begun_it_is_not_known_whose_it_is(state: str, worker: str) -> None:
    with pytest.raises(UnavailableError, match="not known yet"):
        await standalone([driver("d1", state, worker)], {"d1": b""}).find()


def test_a_standalone_submission_carries_the_run_as_a_property_and_variables_in_the_environment() -> None:
    body = creation(submission(MASTER, env={"STREAMSCHED_TOKEN": "secret"}, conf={"spark.master.ui.port": "1"}))

    assert body["sparkProperties"]["spark.streamsched.run"] == RUN
    assert "secret" not in str(body["appArgs"]) + str(body["sparkProperties"])
    assert "spark.master.ui.port=1" not in body["appArgs"]


async def test_the_answer_to_a_submission_is_waited_for(tmp_path: Path) -> None:
    patience: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"status": "ALIVE"})
        patience.append(request.extensions["timeout"]["read"])
        return httpx.Response(200, json={"success": True, "submissionId": "d1"})

    backend = StandaloneBackend(submission(MASTER), Cluster(transport=httpx.MockTransport(answer)))

    assert await backend.submit() == "d1"
    assert patience[0] >= 120  # as long as the master's own requests


# Spark Connect


def test_each_run_has_a_session_of_its_own() -> None:
    assert session_id(RUN) == session_id(RUN) != session_id("another")
    assert remote_url("sc://h:1", RUN) == f"sc://h:1/;user_id=streamsched;session_id={session_id(RUN)}"
    assert remote_url("sc://h:1/;use_ssl=true", RUN).startswith("sc://h:1/;use_ssl=true;user_id=")
    for bad in ("http://h", "sc://", "sc://h/;session_id=1"):
        with pytest.raises(ConfigurationError):
            check_server(bad)


async def test_a_spark_connect_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    job = SparkJob("join.py", master="sc://127.0.0.1:9", deploy_mode=DeployMode.CONNECT)
    assignment = Assignment(RUN, 1, Program(ProgramRef("default", "shop", "join"), job), {})
    files = RunFiles(tmp_path, RUN)
    files.make_folders()
    runtime = RunEnvironment(data_dir=tmp_path, spark_master="local", emit_url="", environ={})

    child = ConnectProgram(assignment, job, runtime, files, ProcessStarter(), reach_s=0.0)

    found = child.verdict(await child.wait())
    assert found is not None
    assert found[0] is RunState.FAILED
    assert "cannot be started: Spark Connect at sc://127.0.0.1:9" in found[1]
    await child.close()

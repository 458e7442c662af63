"""Drivers on Kubernetes: submitted by `spark-submit`, found by their label, watched and killed by the API server.

The pod's name is made from the run's id, so that the API server refuses a second one. Settings of Spark in a program's
`conf` name the namespace (`spark.kubernetes.namespace`) and the credentials
(`spark.kubernetes.authenticate.submission.oauthTokenFile`, `….caCertFile`); default: those of a pod's service account.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from streamsched.domain.errors import UnavailableError
from streamsched.spark.backends.backend import MOST_LOG, DriverState, DriverStatus, DriverSubmission
from streamsched.spark.backends.requests import Cluster, format_answer
from streamsched.spark.backends.submit_process import SubmitProcess

#: Label of drivers.
RUN: Final = "streamsched/run"
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_CREDENTIALS: Final = "spark.kubernetes.authenticate.submission"
#: Most bytes of a pod's log that are copied.
_MOST: Final = 16 * MOST_LOG
_PHASES: Final[Mapping[str, DriverState]] = {
    "Pending": DriverState.WAITING,
    "Running": DriverState.RUNNING,
    "Unknown": DriverState.RUNNING,
    "Succeeded": DriverState.SUCCEEDED,
    "Failed": DriverState.FAILED,
}


class KubernetesBackend:
    """Drivers in pods of Kubernetes, asked for at its API.

    Args:
        transport: for tests.
    """

    def __init__(
        self,
        submission: DriverSubmission,
        submit: SubmitProcess,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._submission = submission
        self._submit = submit
        self._transport = transport
        conf = submission.conf
        self._namespace = namespace = conf.get("spark.kubernetes.namespace", "default")
        self._pods = f"{submission.master.removeprefix('k8s://')}/api/v1/namespaces/{quote(namespace)}/pods"
        if "://" not in submission.master.removeprefix("k8s://"):
            self._pods = f"https://{self._pods}"
        self._token = Path(conf.get(f"{_CREDENTIALS}.oauthTokenFile", f"{_ACCOUNT}/token"))
        self._authority = Path(conf.get(f"{_CREDENTIALS}.caCertFile", f"{_ACCOUNT}/ca.crt"))
        self._killed = False

    async def find(self) -> str | None:
        selector = quote(f"{RUN}={self._submission.label},spark-role=driver")
        answer = await self._cluster().json("GET", f"{self._pods}?labelSelector={selector}")
        pods = (answer or {}).get("items") or []
        return None if not pods else str(pods[0]["metadata"]["name"])

    async def submit(self) -> str:
        conf = kubernetes_settings(self._submission)
        return await self._submit.submit(self._submission, conf, self.find, absent="there is no driver pod yet")

    async def status(self, driver: str) -> DriverStatus:
        pod = await self._cluster().json("GET", f"{self._pods}/{quote(driver)}")
        if pod is None:
            if self._killed:
                return DriverStatus(DriverState.KILLED, f"pod {driver} was deleted")
            return DriverStatus(DriverState.FAILED, f"pod {driver} does not exist any more, so its end is not known")
        status = pod.get("status") or {}
        phase = str(status.get("phase"))
        containers = status.get("containerStatuses") or []
        ended: Mapping[str, Any] = next(
            (each["state"]["terminated"] for each in containers if "terminated" in (each.get("state") or {})), {}
        )
        waits = [
            each["state"]["waiting"].get("reason", "") for each in containers if "waiting" in each.get("state", {})
        ]
        said = " ".join(str(each) for each in (status.get("reason"), ended.get("reason"), *waits) if each)
        why = f"pod {driver} is {phase}. {said}".strip()
        logs = f"kubectl logs --namespace {self._namespace} {driver}"
        return DriverStatus(_PHASES.get(phase, DriverState.RUNNING), why, ended.get("exitCode"), logs)

    async def kill(self, driver: str) -> None:
        answer = await self._cluster().send("DELETE", f"{self._pods}/{quote(driver)}")
        if not answer.is_success and answer.status_code != 404:
            raise UnavailableError(f"pod {driver} cannot be deleted: {format_answer(answer)}")
        self._killed = True

    async def logs(self, driver: str, read: Mapping[str, int]) -> Mapping[str, bytes]:
        known = read.get("stdout", 0)
        if known >= _MOST:
            return {}
        answer = await self._cluster().send("GET", f"{self._pods}/{quote(driver)}/log?limitBytes={known + MOST_LOG}")
        return {"stdout": answer.content[known:]} if answer.is_success else {}

    def _cluster(self) -> Cluster:
        token = self._token.read_text().strip() if self._token.is_file() else ""  # it is rotated
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify = str(self._authority) if self._authority.is_file() else True
        return Cluster(headers, verify, self._transport)


def kubernetes_settings(submission: DriverSubmission) -> dict[str, str]:
    """The settings of a submission to Kubernetes, beside those of the program."""
    name = hashlib.sha256(submission.run.encode()).hexdigest()[:32]
    return {
        f"spark.kubernetes.driver.label.{RUN}": submission.label,
        f"spark.kubernetes.driver.annotation.{RUN}": submission.run,
        "spark.kubernetes.driver.pod.name": f"streamsched-{name}-driver",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        **{f"spark.kubernetes.driverEnv.{each}": value for each, value in submission.env.items()},
    }

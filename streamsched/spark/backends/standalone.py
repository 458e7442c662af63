"""Drivers on a standalone cluster, by the master's REST submission, which runs Python too.

Settings of Spark in a program's `conf`: `spark.master.rest.port` (6066) and `spark.master.ui.port` (8080) name the
master's ports. The master shows no property of a driver that names the run, but the worker writes the driver's command,
with the run's label, at the beginning of its log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.spark.backends.backend import MOST_LOG, DriverState, DriverStatus, DriverSubmission
from streamsched.spark.backends.requests import Cluster, before_submission, decode_answer, format_answer

#: The property that has the run's label.
RUN: Final = "spark.streamsched.run"
_REST_PORT: Final = "spark.master.rest.port"
_UI_PORT: Final = "spark.master.ui.port"
#: The command of a driver is within so many bytes of its log.
_COMMAND: Final = 64 * 1024
_STATES: Final[Mapping[str, DriverState]] = {
    "SUBMITTED": DriverState.WAITING,
    "RELAUNCHING": DriverState.WAITING,
    "UNKNOWN": DriverState.RUNNING,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.SUCCEEDED,
    "FAILED": DriverState.FAILED,
    "ERROR": DriverState.FAILED,
    "KILLED": DriverState.KILLED,
}
#: Seconds a master may take to answer a submission. It may execute the request until it has answered.
_LONGEST_S: Final = 300.0
#: Has what Python imports when it starts; see there.
_START_UP: Final = Path(__file__).parents[1] / "drivers" / "start_up"
#: Settings of Spark that the driver's JVM is started with.
_OF_DRIVER: Final = "spark.driver."


class StandaloneBackend:
    """Drivers on workers of a standalone cluster, asked for at its master. Of several masters (`spark://a:7077,b:7077`)
    the first one that leads is asked.
    """

    def __init__(self, submission: DriverSubmission, cluster: Cluster | None = None) -> None:
        self._submission = submission
        self._cluster = cluster or Cluster()
        hosts = [each.rpartition(":")[0] or each for each in submission.master.removeprefix("spark://").split(",")]
        rest, ui = submission.conf.get(_REST_PORT, "6066"), submission.conf.get(_UI_PORT, "8080")
        self._masters = [(f"http://{host}:{rest}/v1/submissions", f"http://{host}:{ui}/json/") for host in hosts]
        self._leading = self._masters[0]
        self._worker: str | None = None

    async def find(self) -> str | None:
        wanted = f'"-D{RUN}={self._submission.label}"'
        unknown: list[str] = []
        drivers, workers = await self._drivers()
        for driver in reversed(drivers):
            name, worker = driver["id"], workers.get(driver.get("worker", ""))
            if worker is None:
                if driver["state"] in ("SUBMITTED", "RELAUNCHING"):
                    unknown.append(name)
                continue
            begun = await self._read(worker, name, "stderr", 0, _COMMAND)
            if wanted in begun.decode(errors="replace"):
                return name
            if not begun and not _STATES.get(driver["state"], DriverState.FAILED).is_ended:
                unknown.append(name)
        if unknown:
            raise UnavailableError(f"it is not known yet whose driver {unknown[0]} is: it has not begun")
        return None

    async def submit(self) -> str:
        with before_submission():
            await self._leader()
        body = creation(self._submission)
        answer = await self._cluster.send("POST", f"{self._leading[0]}/create", body, timeout_s=_LONGEST_S)
        if answer.status_code >= 400 and answer.status_code != 404:
            raise ConfigurationError(f"the master refuses the driver: {format_answer(answer)}")
        if answer.status_code == 404:
            raise ConfigurationError(f"{self._leading[0]} is no REST server of a master: {format_answer(answer)}")
        content = decode_answer(answer)
        with _check_errors(self._leading[0]):
            if not content["success"]:
                raise ConfigurationError(f"the master refuses the driver: {content.get('message', '')}")
            return content["submissionId"]

    async def status(self, driver: str) -> DriverStatus:
        content = await self._cluster.json("GET", f"{self._leading[0]}/status/{quote(driver)}")
        if content is None:
            raise UnavailableError(f"{self._leading[0]} is no REST server of a master")
        with _check_errors(self._leading[0]):
            if not content["success"]:
                await self._leader()  # a standby knows no driver
                again = await self._cluster.json("GET", f"{self._leading[0]}/status/{quote(driver)}")
                if again is None or not again["success"]:
                    why = f"the master does not know driver {driver} any more, so its end is not known"
                    return DriverStatus(DriverState.FAILED, why)
                content = again
            said = content["driverState"]
            why = str(content.get("message") or "")
            shown_at = f"{self._worker}/logPage/?driverId={quote(driver)}&logType=stderr" if self._worker else ""
            state = _STATES.get(said, DriverState.FAILED)
            return DriverStatus(state, f"driver {driver} is {said}. {why}".strip(), logs=shown_at)

    async def kill(self, driver: str) -> None:
        await self._cluster.json("POST", f"{self._leading[0]}/kill/{quote(driver)}")

    async def logs(self, driver: str, read: Mapping[str, int]) -> Mapping[str, bytes]:
        if self._worker is None:
            drivers, workers = await self._drivers()
            found = next((each.get("worker", "") for each in drivers if each["id"] == driver), "")
            self._worker = workers.get(found)
        if self._worker is None:
            return {}
        return {
            stream: await self._read(self._worker, driver, stream, read.get(stream, 0), MOST_LOG)
            for stream in ("stderr", "stdout")
        }

    async def _drivers(self) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]:
        """All drivers the master knows, oldest first, and the URL of each worker's UI."""
        state = await self._leader()
        with _check_errors(self._leading[1]):
            workers = {each["id"]: each["webuiaddress"] for each in state["workers"]}
            drivers = [*state["completeddrivers"], *state["activedrivers"]]
            return sorted(drivers, key=lambda each: (str(each["starttime"]), each["id"])), workers

    async def _leader(self) -> Mapping[str, Any]:
        """The state of the master that leads, which is asked from now on."""
        failure: UnavailableError | None = None
        for master in self._masters:
            try:
                state = await self._cluster.json("GET", master[1])
                if isinstance(state, dict) and state.get("status") == "ALIVE":
                    self._leading = master
                    return state
                failure = UnavailableError(f"no master leads at {master[1]}")
            except UnavailableError as exc:
                failure = exc
        assert failure is not None
        raise failure

    async def _read(self, worker: str, driver: str, stream: str, offset: int, length: int) -> bytes:
        """Bytes of a driver's log. The worker answers with a line `==== Bytes 10-20 of 30 of <path> ====` before."""
        query = f"driverId={quote(driver)}&logType={stream}&offset={offset}&byteLength={length}"
        answer = await self._cluster.send("GET", f"{worker}/log/?{query}")
        head, _, content = answer.content.partition(b"\n")
        said = head.decode(errors="replace").split()
        if not answer.is_success or said[:2] != ["====", "Bytes"]:
            return b""
        begin = int(said[2].partition("-")[0])
        return content[max(0, offset - begin) :]


def creation(submission: DriverSubmission) -> dict[str, Any]:
    """The body of `CreateSubmissionRequest`. The settings are in the arguments too: the driver is a `spark-submit` of
    its own, which takes them from there.
    """
    conf = {
        **{name: value for name, value in submission.conf.items() if name not in (_REST_PORT, _UI_PORT)},
        RUN: submission.label,
    }
    return {
        "action": "CreateSubmissionRequest",
        "appResource": "",
        "clientSparkVersion": "4",
        "mainClass": "org.apache.spark.deploy.SparkSubmit",
        "appArgs": [
            *("--master", submission.master, "--name", submission.run),
            *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
            *submission.options,
            submission.main,
            *submission.arguments,
        ],
        "environmentVariables": {"SPARK_ENV_LOADED": "1", **_ending_with_its_jvm(submission.env)},
        "sparkProperties": {
            **{name: value for name, value in conf.items() if name.startswith(_OF_DRIVER)},
            RUN: submission.label,
            "spark.app.name": submission.run,
            "spark.master": submission.master,
            "spark.submit.deployMode": "cluster",
            "spark.driver.supervise": "false",
            "spark.jars": "",
        },
    }


def _ending_with_its_jvm(env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which the driver's Python ends with its JVM, which is all that a worker ends."""
    paths = (str(_START_UP), env.get("PYTHONPATH", ""))
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "STREAMSCHED_ENDS_WITH_JVM": "1"}


@contextmanager
def _check_errors(url: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise UnavailableError(f"unexpected answer from {url}: {exc!r}") from exc

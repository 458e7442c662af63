"""Starts and stops a `streamsched dev`, and queries it over HTTP."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

STREAMSCHED = Path(sys.executable).with_name("streamsched")


class SchedulerError(Exception):
    """The scheduler did not start, or ended; the message has the reason."""


class Api:
    """The HTTP API calls of the demo. Each raises `SchedulerError` on an error or without an answer."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=url, timeout=10, trust_env=False, headers=headers)

    def schedules(self) -> dict[str, dict[str, Any]]:
        """Schedules by name."""
        return {each["name"]: each for each in self._get("/v1/schedules")["schedules"] if "flights" in each["id"]}

    def jobs(self, schedule: str) -> list[dict[str, Any]]:
        """Oldest first."""
        return self._get(f"/v1/jobs?schedule={schedule}")["jobs"][::-1]

    def runs(self, program: str) -> list[dict[str, Any]]:
        """Oldest first."""
        return self._get(f"/v1/runs?program={program}")["runs"][::-1]

    def log(self, run: str, lines: int = 15) -> str:
        return self._response(f"/v1/runs/{run}/logs?tail={lines}").text

    def _get(self, path: str) -> Any:
        return self._response(path).json()

    def _response(self, path: str) -> httpx.Response:
        try:
            return self._client.get(path).raise_for_status()
        except httpx.HTTPError as exc:
            raise SchedulerError(f"the scheduler at {self.url} does not answer any more: {exc}") from exc


@contextmanager
def running(folder: Path, patience: float = 90.0) -> Iterator[Api]:
    """Runs a scheduler with its state in `folder` during the block.

    Raises:
        SchedulerError: it ended, or was not ready within `patience` seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "dev.out").open("w+") as out:
        command = [str(STREAMSCHED), "dev", "--data-dir", str(folder), "--port", "0", "--spark-master", "local[2]"]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            url = _url(process, folder, patience)
            yield Api(url, token=(folder / "token").read_text().strip())
        finally:
            _stop(process)


def deploy(app: Path, api: Api, environ: Mapping[str, str]) -> None:
    """Deploys the app.

    Raises:
        SchedulerError: the deployment was refused.
    """
    command = [str(STREAMSCHED), "deploy", str(app), "--url", api.url]
    env = {**os.environ, "STREAMSCHED_TOKEN": api.token, **environ}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SchedulerError(f"deploying {app.name} failed:\n{done.stdout}{done.stderr}")


def _url(process: subprocess.Popen[bytes], folder: Path, patience: float) -> str:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SchedulerError((folder / "dev.out").read_text().strip() or "`streamsched dev` ended without output")
        try:
            note = json.loads((folder / "dev.json").read_text())
            if note["pid"] == process.pid and httpx.get(note["url"] + "/health/ready", trust_env=False).is_success:
                return note["url"]
        except (OSError, ValueError, httpx.TransportError):
            pass  # not ready yet
        time.sleep(0.1)
    raise SchedulerError(f"`streamsched dev` is not ready after {patience:.0f} s; see {folder / 'dev.log'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""The roles as YARN runs them from `compose/yarn/Yarnfile.json`, on a real YARN of one node: two workers, two launchers
and an API, killed under load, and the service's master. YARN replaces what was killed, and each job is done exactly
once; in the end another worker is added, and nothing is left when the service has been stopped.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import psutil

from compose.ports import free_port
from tests.faults.processes.command import ROOT, environ, role
from tests.faults.sites.installation_site import InstallationSite, site
from tests.support.judgement import Judgement
from tests.support.yarn_cluster import yarn_cluster
from tests.support.yarn_services import YarnServices, yarn_services
from tests.trial import Asked, Counts, Site, Trial, settle

YARNFILE: Final = ROOT / "compose" / "yarn" / "Yarnfile.json"
NAME: Final = "streamsched"
#: Component → containers, as the file says.
COMPONENTS: Final = {"worker": 2, "launcher": 2, "api": 1}
#: What runs the components, in a container of its own.
MASTER: Final = "master"
#: What is killed, first in this order, then at random.
KILLED: Final = ("worker", "launcher", "api", MASTER)
SCHEDULES: Final = 12
_REPLACED_S: Final = 120.0
_SETTLE_S: Final = 120.0

#: Runs are in progress when their launcher is killed.
_APP: Final = f"""
from streamsched import App, partitions

app = App("yarn")
slow = app.bash("slow", "sleep 1; echo $STREAMSCHED_RUN_ID >> {{done}}")
for number in range({SCHEDULES}):
    app.schedule(f"two-{{{{number}}}}", slow, when=partitions(f"landed_{{{{number}}}}", 2), overlap="queue")
"""


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    jars = Path(tempfile.gettempdir())  # Maven's downloads, which the next run finds again
    with ExitStack() as stack:
        there = stack.enter_context(site(asked.folder, "postgres"))
        (cluster := asked.folder / "yarn").mkdir()
        yarn = stack.enter_context(yarn_cluster(cluster, jars / "mini-yarn-jars"))
        services = asked.folder / "yarn-services"
        service = stack.enter_context(yarn_services(yarn, services, jars / "yarn-services-jars"))
        client = stack.enter_context(httpx.Client(base_url=there.api, timeout=20))
        yield Site(lambda _: YarnTrial(there, service, client, asked))


def service_file(site: InstallationSite) -> Path:
    """The service file, with this machine's paths and ports, and small containers; and the environment it names."""
    environment = site.folder / "environment"
    settings = {name: value for name, value in site.environ().items() if name.startswith("STREAMSCHED_")}
    environment.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items()))
    environment.chmod(0o600)
    service: dict[str, Any] = json.loads(YARNFILE.read_text())
    service["configuration"]["env"]["INSTALLATION"] = sys.prefix
    service["configuration"]["files"][0]["src_file"] = f"file://{environment}"
    for component in service["components"]:
        component["resource"]["memory"] = "512"
        given = component.get("configuration", {}).get("env", {})
        given.update({name: str(free_port()) for name in given})
    (file := site.folder / YARNFILE.name).write_text(json.dumps(service))
    return file


class YarnTrial(Trial):
    """One service, and its kills."""

    patience_s = _SETTLE_S

    def __init__(self, there: InstallationSite, services: YarnServices, client: httpx.Client, asked: Asked) -> None:
        self.there = there
        self.services = services
        self._client = client
        self._kills, self.rng = asked.n, random.Random(asked.seed)
        self.turn = self._containers = 0
        self.killed: list[str] = []
        self._took_s: list[float] = []
        self._stopped = False
        self._runs: list[dict[str, Any]] = []

    @property
    def done(self) -> Path:
        """Where every run that is done writes its id, a line each."""
        return self.there.folder / "done"

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        try:
            self.services.app("-launch", NAME, str(service_file(self.there)))
            _wait(lambda: len(self.services.containers(NAME)) == 1 + sum(COMPONENTS.values()), "no containers")
            _wait(self._answers, "the API does not answer")
            self._containers = len(self.services.containers(NAME)) - 1
            self._deploy()
            self._announce(range(2))
            yield
        finally:
            for process in self._left():  # a cluster that ends leaves its containers to themselves
                with suppress(psutil.Error):
                    process.kill()

    async def faults(self) -> AsyncIterator[str]:
        """Kills one process between the two halves of a turn's events, and waits until all are back."""
        for number in range(self._kills):
            self.turn += 1
            what = KILLED[number] if number < len(KILLED) else self.rng.choice(KILLED)
            self._emit([0])
            before = set(self.services.containers(NAME))
            victim = self.rng.choice(list(self._processes(what, before)))
            container = victim.environ()["CONTAINER_ID"]
            began = time.monotonic()
            victim.send_signal(signal.SIGKILL)
            self._emit([1])
            with suppress(TimeoutError):
                _wait(lambda: self._all_are_back(what, container, before), f"{what} was not replaced")  # noqa: B023
                self._took_s.append(time.monotonic() - began)
            self._announce(range(2))
            self.killed.append(what)
            yield what
        await settle(self)
        self._flex()
        yield "one more worker"
        self.services.app("-stop", NAME)
        self._stopped = True
        with suppress(TimeoutError):
            _wait(lambda: not self._left(), "roles go on after the stop", 30)
        self.services.app("-destroy", NAME)
        yield "stopped"

    def _all_are_back(self, what: str, container: str, before: set[str]) -> bool:
        now = set(self.services.containers(NAME))
        there = {each: len(list(self._processes(each, now))) for each in COMPONENTS}
        if container in now or not now - before or there != COMPONENTS:
            return False
        # A new master takes the containers of the former one over, or replaces them after a while.
        return what != MASTER or self.services.stable(NAME)

    async def judge(self) -> Judgement:
        """What completed by the words of the API, until that is stopped; what programs did; what is left at the end."""
        verdict = Judgement()
        if not self._stopped:
            self._runs = self._read_runs()
        completed = [each["job"] for each in self._runs if each["state"] == "COMPLETED"]
        done = [each.rpartition(".")[0] for each in self.done.read_text().split()] if self.done.exists() else []
        verdict.compare("completed", sorted(self._jobs()), sorted(completed))
        verdict.compare("done", sorted(self._jobs()), sorted(done))
        if missing := len(self.killed) - len(self._took_s):
            verdict.spoil(f"{missing} were not replaced within {_REPLACED_S:g} s")
        if self._stopped and (left := self._left()):
            verdict.spoil(f"{len(left)} processes of the roles after the stop")
        return verdict

    def counts(self) -> Counts:
        return {
            "containers": self._containers,
            "killed": len(self.killed),
            "replaced": len(self._took_s),
            "took": self._took_s,
            "jobs": len(self._jobs()),
            "runs": len(self._runs),
        }

    def _deploy(self) -> None:
        (self.there.folder / "app.py").write_text(_APP.format(done=self.done))
        subprocess.run(
            (*role("deploy"), "app.py"),
            cwd=self.there.folder,
            env=environ(url=self.there.api),
            check=True,
            capture_output=True,
        )

    def _announce(self, parts: Sequence[int]) -> None:
        self.turn += 1
        self._emit(parts)

    def _emit(self, parts: Sequence[int]) -> None:
        """A partition of each dataset for each part of this turn; said again until the API has accepted all."""
        events = [
            {
                "id": uuid4().hex,
                "source": "faults",
                "type": "partitions.added",
                "data": {"dataset": f"default.landed_{number}", "partitions": [f"n={self.turn}-{part}"]},
            }
            for number in range(SCHEDULES)
            for part in parts
        ]

        def accepted() -> bool:
            with suppress(httpx.TransportError):
                return self._client.post("/v1/events", json=events).status_code == httpx.codes.ACCEPTED
            return False

        _wait(accepted, "events were not accepted")

    def _jobs(self) -> list[str]:
        return [f"default.yarn.two-{number}.1.{turn + 1}" for number in range(SCHEDULES) for turn in range(self.turn)]

    def _flex(self) -> None:
        """One more worker."""
        self.services.app("-flex", NAME, "-component", "worker", str(COMPONENTS["worker"] + 1))
        total = 1 + sum(COMPONENTS.values()) + 1
        _wait(lambda: len(self.services.containers(NAME)) == total, "no third worker")

    def _processes(self, what: str, containers: set[str]) -> Iterator[psutil.Process]:
        """The first processes of these containers that are this role, or the service's master."""
        for process in self._left():
            with suppress(psutil.Error):
                if self._role(process) == what and process.environ().get("CONTAINER_ID") in containers:
                    yield process

    def _left(self) -> list[psutil.Process]:
        """The first processes of all containers of this trial."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if self._role(process) is not None:
                    found.append(process)
        return found

    def _role(self, process: psutil.Process) -> str | None:
        """What a process is, if it is one of this trial and its command line that of a role or of the master."""
        words = process.cmdline()
        if words[1:2] == [f"{sys.prefix}/bin/streamsched"] and os.getsid(process.pid) == process.pid:
            return words[2] if process.environ().get("STREAMSCHED_DATA_DIR") == str(self.there.data) else None
        is_master = "org.apache.hadoop.yarn.service.ServiceMaster" in words and words[0].endswith("/java")
        return MASTER if is_master and any(str(self.there.folder) in word for word in words) else None

    def _read_runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: dict[str, str] = {}
        while True:
            wanted = {"app": "default.yarn", "limit": 1000, **after}
            answer = self._client.get("/v1/runs", params=wanted).raise_for_status().json()
            found += answer["runs"]
            if not answer.get("next"):
                return found
            after = {"after": answer["next"]}

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return self._client.get("/health/ready").status_code == httpx.codes.OK
        return False


def _wait(ready: Callable[[], bool], otherwise: str, seconds: float = _REPLACED_S) -> None:
    """Raises TimeoutError with this text when it is not so in time."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.2)

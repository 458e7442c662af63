"""The roles as YARN runs them from `compose/yarn/Yarnfile.json`, on a real YARN of one node: two workers, two launchers
and an API, killed under load. YARN replaces what was killed, and each job is done exactly once.

    python -m tests.faults.yarn_roles --kills 4 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import psutil

from compose.ports import free_port
from tests.faults.processes.command import ROOT, environ, role
from tests.faults.sites.installation_site import InstallationSite, temporary_site
from tests.support.judgement import Judgement
from tests.support.yarn_cluster import yarn_cluster
from tests.support.yarn_services import YarnServices, yarn_services

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


@dataclass(frozen=True, slots=True)
class YarnRoles:
    """What came of it.

    Attributes:
        containers: of the components, before the first kill.
        killed: what, in order.
        replaced: kills after which all containers ran again, others for those that had ended.
        took_s: how long that took, each.
        jobs: that had to be done.
        runs: that were started for them.
        left: processes of the roles after the service had been stopped.
    """

    containers: int
    killed: Sequence[str]
    replaced: int
    took_s: Sequence[float]
    jobs: int
    runs: int
    verdict: Judgement
    left: int

    @property
    def well(self) -> bool:
        return self.verdict.clean and self.replaced == len(self.killed) and not self.left

    def __str__(self) -> str:
        took = f" took {min(self.took_s):.0f} to {max(self.took_s):.0f} s" if self.took_s else ""
        return (
            f"yarn containers {self.containers} killed {len(self.killed)} replaced {self.replaced} jobs {self.jobs} "
            f"lost {self.verdict.lost} doubled {self.verdict.doubled} "
            f"(runs {self.runs}; {', '.join(self.killed)};{took})"
        )


def run(jars: Path, *, kills: int, seed: int) -> YarnRoles:
    """One trial, from the start of everything to its end. `jars`: where Maven's downloads are, or shall be."""
    with temporary_site("postgres") as site:
        (cluster := site.folder / "yarn").mkdir()
        with (
            yarn_cluster(cluster, jars / "mini-yarn-jars") as yarn,
            yarn_services(yarn, site.folder / "yarn-services", jars / "yarn-services-jars") as services,
        ):
            return _Trial(site, services, random.Random(seed)).play(kills)


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


@dataclass(slots=True)
class _Trial:
    site: InstallationSite
    services: YarnServices
    rng: random.Random
    turn: int = 0
    took_s: list[float] = field(default_factory=list)

    @property
    def done(self) -> Path:
        """Where every run that is done writes its id, a line each."""
        return self.site.folder / "done"

    def play(self, kills: int) -> YarnRoles:
        try:
            return self._play(kills)
        finally:
            for process in self._left():  # a cluster that ends leaves its containers to themselves
                with suppress(psutil.Error):
                    process.kill()

    def _play(self, kills: int) -> YarnRoles:
        self.services.app("-launch", NAME, str(service_file(self.site)))
        _wait(lambda: len(self.services.containers(NAME)) == 1 + sum(COMPONENTS.values()), _REPLACED_S, "no containers")
        with httpx.Client(base_url=self.site.api, timeout=20) as client:
            _wait(lambda: _answers(client), _REPLACED_S, "the API does not answer")
            containers = len(self.services.containers(NAME)) - 1
            self._deploy()
            self._announce(client, range(2))
            killed = [self._strike(client, number) for number in range(kills)]
            verdict = self._judge(client)
            runs = len(_runs(client))
        self._flex()
        self.services.app("-stop", NAME)
        with suppress(TimeoutError):
            _wait(lambda: not self._left(), 30, "roles go on after the stop")
        self.services.app("-destroy", NAME)
        return YarnRoles(
            containers, killed, len(self.took_s), self.took_s, len(self._jobs()), runs, verdict, len(self._left())
        )

    def _deploy(self) -> None:
        (self.site.folder / "app.py").write_text(_APP.format(done=self.done))
        subprocess.run(
            (*role("deploy"), "app.py"),
            cwd=self.site.folder,
            env=environ(url=self.site.api),
            check=True,
            capture_output=True,
        )

    def _strike(self, client: httpx.Client, number: int) -> str:
        """Kills one process between the two halves of a turn's events; what."""
        self.turn += 1
        what = KILLED[number] if number < len(KILLED) else self.rng.choice(KILLED)
        self._emit(client, [0])
        before = set(self.services.containers(NAME))
        victim = self.rng.choice(list(self._processes(what, before)))
        container = victim.environ()["CONTAINER_ID"]
        began = time.monotonic()
        victim.send_signal(signal.SIGKILL)
        self._emit(client, [1])

        def all_are_back() -> bool:
            now = set(self.services.containers(NAME))
            there = {each: len(list(self._processes(each, now))) for each in COMPONENTS}
            if container in now or not now - before or there != COMPONENTS:
                return False
            # A new master takes the containers of the former one over, or replaces them after a while.
            return what != MASTER or self.services.stable(NAME)

        with suppress(TimeoutError):
            _wait(all_are_back, _REPLACED_S, f"{what} was not replaced")
            self.took_s.append(time.monotonic() - began)
        self._announce(client, range(2))
        return what

    def _announce(self, client: httpx.Client, parts: Sequence[int]) -> None:
        self.turn += 1
        self._emit(client, parts)

    def _emit(self, client: httpx.Client, parts: Sequence[int]) -> None:
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
                return client.post("/v1/events", json=events).status_code == httpx.codes.ACCEPTED
            return False

        _wait(accepted, _REPLACED_S, "events were not accepted")

    def _jobs(self) -> list[str]:
        return [f"default.yarn.two-{number}.1.{turn + 1}" for number in range(SCHEDULES) for turn in range(self.turn)]

    def _judge(self, client: httpx.Client) -> Judgement:
        """What completed by the API's words, and what programs did, once it is all, or has been late for long."""
        verdict = Judgement()

        def settled() -> bool:
            nonlocal verdict
            verdict = Judgement()
            completed = [each["job"] for each in _runs(client) if each["state"] == "COMPLETED"]
            done = [each.rpartition(".")[0] for each in self.done.read_text().split()] if self.done.exists() else []
            verdict.compare("completed", sorted(self._jobs()), sorted(completed))
            verdict.compare("done", sorted(self._jobs()), sorted(done))
            return verdict.clean

        with suppress(TimeoutError):
            _wait(settled, _SETTLE_S, "not all is done")
        return verdict

    def _flex(self) -> None:
        """One more worker."""
        self.services.app("-flex", NAME, "-component", "worker", str(COMPONENTS["worker"] + 1))
        total = 1 + sum(COMPONENTS.values()) + 1
        _wait(lambda: len(self.services.containers(NAME)) == total, _REPLACED_S, "no third worker")

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
            return words[2] if process.environ().get("STREAMSCHED_DATA_DIR") == str(self.site.data) else None
        is_master = "org.apache.hadoop.yarn.service.ServiceMaster" in words and words[0].endswith("/java")
        return MASTER if is_master and any(str(self.site.folder) in word for word in words) else None


def _runs(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        answer = (
            client.get("/v1/runs", params={"app": "default.yarn", "limit": 1000, **after}).raise_for_status().json()
        )
        found += answer["runs"]
        if not answer.get("next"):
            return found
        after = {"after": answer["next"]}


def _answers(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/health/ready").status_code == httpx.codes.OK
    return False


def _wait(ready: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Raises TimeoutError with this text when it is not so in time."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    came = run(Path(tempfile.gettempdir()), kills=asked.kills, seed=asked.seed)
    sys.stdout.write("".join(f"{word}\n" for word in came.verdict.words))
    sys.stdout.write(f"{came}\n")
    return 0 if came.well else 1


if __name__ == "__main__":
    sys.exit(main())

"""The demo's pipeline while its scheduler is killed: once as partitions land, once as a Spark job runs. All of it
happens, each of it once.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from compose.ports import free_port
from streamsched.store.server.embedded_server import stop_server
from tests.support.dev_process import DevProcess

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
JOINS = {"default.flights.weekly-join.1.1", "default.flights.weekly-join.1.2"}


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    dev = DevProcess(tmp_path)
    yield dev
    dev.close()
    stop_server(dev.state / "postgres")


def kill(dev: DevProcess, *, postgres: bool) -> None:
    postmaster = psutil.Process(int((dev.state / "postgres" / "postmaster.pid").read_text().splitlines()[0]))
    dev.stop(signal.SIGKILL)
    if postgres:
        postmaster.kill()
        postmaster.wait(10)


def land(dev: DevProcess, data: Path, port: int, *, since: str) -> subprocess.Popen[bytes]:
    """One week. The second is landed after the first join began, so that it is a second join whatever the order in
    which spooled events arrive."""
    return subprocess.Popen(
        [sys.executable, str(FLIGHTS / "land.py"), "--data", str(data), "--weeks", "1", "--since", since],
        env={
            **os.environ,
            "STREAMSCHED_EMIT_URL": f"http://127.0.0.1:{port}",
            "STREAMSCHED_TOKEN": dev.token,
            "STREAMSCHED_SPOOL": str(dev.state / "spool" / "outside-runs"),
        },
    )


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.torture
@pytest.mark.timeout(900)
def test_killed_while_partitions_land_and_while_a_join_runs(java: None, dev: DevProcess) -> None:
    data = dev.folder / "data"
    port = free_port()
    again = ("--port", str(port), "--spark-master", "local[2]")
    dev.start(*again)
    assert dev.run("deploy", str(FLIGHTS / "app.py"), FLIGHTS_DATA=str(data)).code == 0
    upstream = land(dev, data, port, since="2013-03-01")
    try:
        landed = lambda: len([*data.glob("*/_manifest/*.json")])  # noqa: E731
        dev.until(lambda: landed() >= 3, within=180)
        kill(dev, postgres=False)
        before = landed()
        dev.until(lambda: landed() > before, within=180)  # landing goes on without a scheduler
        dev.start(*again)

        def running() -> bool:
            runs = dev.run("run", "list", "-o", "json").json
            return any(run["state"] == "RUNNING" and run["job"] in JOINS for run in runs)

        dev.until(running, within=240)
        assert upstream.wait(60) == 0
        upstream = land(dev, data, port, since="2013-03-08")
        kill(dev, postgres=True)
        dev.start(*again)
        assert upstream.wait(240) == 0
    finally:
        upstream.kill()
        upstream.wait()

    def settled() -> bool:
        jobs = dev.run("job", "list", "-o", "json").json
        runs = dev.run("run", "list", "-o", "json").json
        return (
            {job["id"] for job in jobs} >= JOINS
            and {run["job"] for run in runs if run["state"] == "COMPLETED"} >= JOINS
            and sum(job["schedule"].endswith("weekly-report") for job in jobs) == 2
            and all(job["state"] in {"LAUNCHED", "COALESCED"} for job in jobs)
            and all(run["endedAt"] for run in runs)
        )

    dev.until(settled, within=400)
    runs = dev.run("run", "list", "-o", "json").json
    assert sorted(run["id"] for run in runs if run["job"] in JOINS) == sorted(f"{job}.r1" for job in JOINS)
    assert {run["state"] for run in runs} == {"COMPLETED"}
    with (data / "report.csv").open() as table:
        assert sum(int(row["flights"]) for row in csv.DictReader(table) if row["measure"] == "wind") == 13_084

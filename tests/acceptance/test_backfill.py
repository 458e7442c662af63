"""A backfill of a month, by command and over HTTP: everything is killed in the middle of it, and each day runs once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from streamsched.emit.destination import dev_url
from streamsched.store.server.embedded_server import stop_server
from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(900)]

APP = """
from streamsched import App, cron, partitions, program

app = App("sales")
report = app.bash("report", "sleep 0.2; echo $STREAMSCHED_ARG_TRIGGER_LOGICAL_START_TIME >> days")
load = app.bash("load", "echo $STREAMSCHED_ARG_REGION $STREAMSCHED_ARG_DATE; exit $STREAMSCHED_ARG_CODE",
    defaults={"code": "0"})
app.schedule("nightly", report, when=cron("0 6 * * *"))
app.schedule("keyed", load, when=partitions("orders").per("region", "date"), overlap="queue")
app.schedule("after", app.bash("next", "true"), when=program(report))
"""
BACKFILL = "sales.nightly.backfill-january"
MONTH = ("--from", "2013-01-01", "--to", "2013-01-31")
DAYS = [f"2013-01-{day:02d}T06:00:00+00:00" for day in range(1, 32)]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    (tmp_path / "app.py").write_text(APP)
    dev = DevProcess(tmp_path)
    dev.start()
    assert dev.run("deploy", "app.py").code == 0
    yield dev
    dev.close()
    stop_server(dev.state / "postgres")


def kill_everything(dev: DevProcess) -> None:
    """The scheduler, its PostgreSQL, and all that they started, at once."""
    postmaster = psutil.Process(int((dev.state / "postgres" / "postmaster.pid").read_text().splitlines()[0]))
    mine = [each for each in psutil.process_iter() if _belongs(each, dev.folder) and each.pid != postmaster.pid]
    dev.stop(signal.SIGKILL)
    for each in (*mine, postmaster):
        try:
            each.kill()
            each.wait(10)
        except psutil.NoSuchProcess:
            pass


def _belongs(process: psutil.Process, folder: Path) -> bool:
    """Whether it is a runner or program of this folder."""
    try:
        return process.cwd() == str(folder) and process.pid != psutil.Process().pid
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def counts(dev: DevProcess, backfill: str = BACKFILL) -> dict[str, int]:
    found: dict[str, int] = dev.run("backfill", "show", backfill, "-o", "json").json["counts"]
    return found


def test_a_month_is_filled_in_though_everything_is_killed(dev: DevProcess) -> None:
    planned = dev.run("backfill", "start", "sales.nightly", *MONTH, "--dry-run")
    assert planned.code == 0, planned
    assert "2013-01-31 06:00:00Z" in planned.out
    assert "31 jobs would be made; 0 of the span are left out by --only" in planned.out
    given = (*MONTH, "--max-active", "4", "--mute", "--reason", "ann", "--idempotency-key", "january")
    started = dev.run("backfill", "start", "sales.nightly", *given)
    assert f"{BACKFILL} is started with 31 jobs" in started.out, started

    dev.until(lambda: counts(dev)["succeeded"] >= 5, within=120)
    kill_everything(dev)
    dev.start()
    again = dev.run("backfill", "start", "sales.nightly", *given)
    assert f"{BACKFILL} was started before" in again.out, again
    dev.until(lambda: counts(dev)["succeeded"] >= 15, within=240)
    kill_everything(dev)
    dev.start()
    dev.until(lambda: counts(dev)["succeeded"] == 31, within=300)

    dev.until(lambda: dev.run("backfill", "show", BACKFILL, "-o", "json").json["state"] == "COMPLETED")
    runs = dev.run("run", "list", "--program", "sales.report", "-n", "1000", "-o", "json").json
    completed = Counter(run["job"] for run in runs if run["state"] == "COMPLETED")
    assert completed == {f"default.{BACKFILL}.{number}": 1 for number in range(1, 32)}
    repeated = {run["arguments"]["trigger.logical_start_time"] for run in runs if run["attempt"] > 1}
    seen = Counter((dev.folder / "days").read_text().split())
    assert sorted(seen) == DAYS
    assert {day for day, times in seen.items() if times > 1} <= repeated, "only a run that was killed is repeated"
    assert dev.run("run", "list", "--program", "sales.next", "-o", "json").json == [], "mute holds"
    shown = dev.run("backfill", "show", BACKFILL)
    assert shown.out.splitlines()[:2] == ["[" + "#" * 73 + "] 100%", "31 of 31: 31 succeeded"]
    nothing = dev.run("backfill", "start", "sales.nightly", *MONTH)
    assert (nothing.code, "none of 31 jobs of the span is left to make" in nothing.err) == (2, True), nothing


@pytest.mark.nightly
def test_it_is_paused_resumed_and_cancelled_by_command_and_over_http(dev: DevProcess) -> None:
    url = dev_url(dev.state)
    assert url is not None
    assert dev.run("schedule", "pause", "sales.nightly").code == 0
    body: dict[str, Any] = {"from": "2013-01-01", "to": "2013-01-31", "maxActive": 3}
    with httpx.Client(base_url=f"{url}/v1", headers=dev.authorization) as http:
        started = http.post(
            "/schedules/default.sales.nightly/backfills", json=body, headers={"Idempotency-Key": "january"}
        )
        assert (started.status_code, started.json()["id"]) == (202, f"default.{BACKFILL}")
        dev.until(lambda: http.get(f"/backfills/default.{BACKFILL}").json()["counts"]["active"] == 3)
        assert dev.run("backfill", "pause", BACKFILL, "--reason", "ann").out == f"{BACKFILL} is PAUSED\n"
        assert dev.run("schedule", "resume", "sales.nightly").code == 0
        shown = dev.run("backfill", "show", BACKFILL).out
        assert "0 of 31: 3 active, 28 waiting" in shown
        assert all(len(line) <= 80 for line in shown.splitlines()[:2])
        resumed = http.post(f"/backfills/default.{BACKFILL}/resume", json={})
        assert resumed.json()["state"] == "RUNNING"
        dev.until(lambda: counts(dev)["succeeded"] >= 2, within=120)
        assert dev.run("backfill", "cancel", BACKFILL).out == f"{BACKFILL} is CANCELLED\n"
        dev.until(lambda: counts(dev)["active"] == 0, within=120)
        found = http.get("/backfills").json()["backfills"]
    assert [each["state"] for each in found] == ["CANCELLED"]
    assert found[0]["counts"]["waiting"] > 0
    assert "CANCELLED" in dev.run("backfill", "list").out


@pytest.mark.nightly
def test_keys_run_as_they_travel_and_only_those_that_failed_are_repeated(dev: DevProcess) -> None:
    keys = ("--keys", "region=EU,US", "--keys", "date=2013-01-01..2013-01-02")
    first = ("--idempotency-key", "a", "--arg", "code=3")
    assert dev.run("backfill", "start", "sales.keyed", *keys, *first).code == 0
    dev.until(lambda: counts(dev, "sales.keyed.backfill-a")["failed"] == 4, within=120)
    shown = dev.run("backfill", "show", "sales.keyed.backfill-a").out
    assert "4 of 4: 4 failed" in shown
    assert "sales.keyed.backfill-a.4" in shown
    missing = dev.run("backfill", "start", "sales.keyed", *keys)
    assert (missing.code, "none of 4 jobs" in missing.err) == (2, True), missing

    assert dev.run("backfill", "start", "sales.keyed", *keys, "--only", "failed", "--idempotency-key", "b").code == 0
    dev.until(lambda: counts(dev, "sales.keyed.backfill-b")["succeeded"] == 4, within=120)

    said = {dev.run("run", "logs", f"sales.keyed.backfill-b.{number}.r1").out.strip() for number in range(1, 5)}
    assert said == {f"{region} 2013-01-0{day}" for region in ("EU", "US") for day in (1, 2)}


def test_partitions_of_manifests(dev: DevProcess) -> None:
    folder = dev.folder / "orders"
    (folder / "_manifest").mkdir(parents=True)
    for sequence, date in enumerate(("2013-01-01", "2013-01-02"), start=1):
        values = {"region": "EU", "date": date}
        manifest = {
            "v": 1,
            "commit": f"c{sequence}",
            "sequence": sequence,
            "dataset": "default.orders",
            "at": "2013-01-03T00:00:00Z",
            "mode": "append",
            "partition_by": ["region", "date"],
            "schema": {},
            "partitions": [{"key": f"region=EU/date={date}", "values": values, "files": [], "bytes": 1, "rows": 1}],
        }
        (folder / "_manifest" / f"{sequence:016d}-c{sequence}.json").write_text(json.dumps(manifest))

    planned = dev.run("backfill", "start", "sales.keyed", "--manifests", "orders", "--dry-run", "-o", "json")

    assert [(job["key"], job["events"]) for job in planned.json["jobs"]] == [("EU/2013-01-01", 1), ("EU/2013-01-02", 1)]


REFUSED = [
    (("sales.nothing", *MONTH), 3, "schedule 'sales.nothing' was not found"),
    (("sales.nightly",), 2, "must have one span"),
    (("sales.nightly", "--from", "2013-01-31", "--to", "2013-01-01"), 2, "to: is 2013-01-01, before the beginning"),
    (("sales.nightly", "--from", "1980-01-01", "--to", "2013-01-01"), 2, "the backfill would make 12055 jobs"),
    (("sales.keyed", "--keys", "day=1"), 2, "keys: names day, but the schedule's key is region and date"),
    (("sales.keyed", "--keys", "region"), 2, "'region' is not of the form name=value"),
    (("sales.keyed", "--keys", "region=1", "--keys", "region=2"), 2, "names a column twice"),
    (("sales.keyed", "--manifests", "nowhere"), 2, "is no partitioned file set"),
]


def test_what_does_not_fit_is_refused(dev: DevProcess) -> None:
    for given, code, said in REFUSED:
        answer = dev.run("backfill", "start", *given)
        assert (answer.code, said in answer.err) == (code, True), answer

    assert dev.run("backfill", "list", "-o", "json").json == []

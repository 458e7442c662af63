"""Tutorial and how-to pages, followed literally in an empty folder with real parts; the pages hold the output."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Final

import psycopg
import pytest

from compose.ports import free_ports
from tests.support.dev_process import DevProcess
from tests.support.docs_pages import ROOT, Walkthrough
from tests.support.services import need_module

DOCS: Final = ROOT / "docs"
TUTORIAL: Final = ("1-first-schedule", "2-composition", "3-constraints-and-why", "4-spark")
#: Pages that are followed one after the other, on roles in processes of their own.
CLUSTER: Final = (pytest.param(("run-a-cluster", "reshard"), marks=pytest.mark.nightly), ("run-a-cluster", "upgrade"))
#: Pages that are followed each on a `streamsched dev` of its own, or on nothing.
ALONE: Final = (
    *("chain-programs", "send-events", "start-a-run", "kill-a-stuck-run", "dead-letters"),
    *("programs-without-a-process", "migrate", "suspend-a-schedule", "set-preferences", "depend-by-job-id"),
    *("watch-a-table", "trace-an-event", "limit-a-namespace", "give-access", "move-from-airflow"),
    *("wait-for-whole-days", "test-your-schedules"),
)


def follow(walkthrough: Walkthrough, kind: str, *names: str) -> None:
    try:
        for name in names:
            walkthrough.follow(DOCS / kind / f"{name}.md")
    finally:
        walkthrough.close()


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(1200)
def test_the_tutorial(java: None, tmp_path: Path) -> None:
    follow(Walkthrough(DevProcess(tmp_path)), "tutorial", *TUTORIAL)


@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ALONE)
def test_a_how_to_page(name: str, tmp_path: Path) -> None:
    follow(Walkthrough(DevProcess(tmp_path)), "how-to", name)


@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_the_page_about_late_data(tmp_path: Path) -> None:
    need_module("aiosmtpd", "dev")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    walkthrough = Walkthrough(DevProcess(tmp_path), {"127.0.0.1:2525": f"127.0.0.1:{port}"})
    walkthrough.meanwhile = {"The next morning": lambda: pass_night(tmp_path)}
    follow(walkthrough, "how-to", "be-notified-of-late-data")


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_the_page_about_sending_later(tmp_path: Path) -> None:
    need_module("dapr", "dapr")
    app, http, grpc = free_ports(3)
    ports = {"STREAMSCHED_DAPR_HTTP_PORT": str(http), "STREAMSCHED_DAPR_GRPC_PORT": str(grpc)}
    follow(Walkthrough(DevProcess(tmp_path), {"127.0.0.1:8080": f"127.0.0.1:{app}"}, ports), "how-to", "send-later")


def pass_night(folder: Path) -> None:
    """The due time of tomorrow is that of the last eight o'clock."""
    url = json.loads((folder / ".streamsched" / "dev.json").read_text())["settings"]["database_url"]
    with psycopg.connect(url, autocommit=True) as connection:
        moved = connection.execute(
            "UPDATE expectations SET since = since - days, due_at = due_at - days, starts = starts - days"
            " FROM (SELECT id, make_interval(days => 1 + extract(days FROM due_at - now())::int) AS days"
            " FROM expectations) AS ahead WHERE ahead.id = expectations.id"
        )
    assert moved.rowcount == 1


@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", CLUSTER, ids="+".join)
def test_the_pages_about_a_cluster(names: tuple[str, ...], java: None, empty_database: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    stands_for = {"postgresql://host/streamsched": empty_database, "http://127.0.0.1:8765": f"http://127.0.0.1:{port}"}
    walkthrough = Walkthrough(DevProcess(tmp_path), stands_for, {"STREAMSCHED_API_PORT": port})
    follow(walkthrough, "how-to", *names)

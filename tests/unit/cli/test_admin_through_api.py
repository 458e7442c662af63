"""Administration commands use the given API, never another installation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.cli.commands.admin import through_api
from tests.unit.cli.test_requests import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No `streamsched dev` in this folder, and no settings."""
    monkeypatch.setenv("STREAMSCHED_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("STREAMSCHED_DATABASE_URL", raising=False)
    monkeypatch.delenv("STREAMSCHED_URL", raising=False)
    return tmp_path


def test_a_given_api_url_takes_precedence_over_configured_databases(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert through_api("", direct=False)
    (nowhere / "dev.json").write_text(json.dumps({"url": "http://x", "settings": {"database_url": "postgresql://x/y"}}))
    assert not through_api("", direct=False)
    assert through_api("http://other", direct=False)
    monkeypatch.setenv("STREAMSCHED_DATABASE_URL", "postgresql://x/y")
    assert not through_api("", direct=False)
    assert through_api("http://other", direct=False)
    assert not through_api("http://other", direct=True)


def test_doctor_uses_the_api_at_streamsched_url(server: Server) -> None:
    finding = {"check": "schema", "health": "ok", "found": "revision 1", "advice": ""}
    server.answer = {"health": "ok", "findings": [finding]}

    said = json.loads(server.run("doctor", "-o", "json", STREAMSCHED_DATABASE_URL="postgresql://nobody/there"))

    assert [path for _, path, _ in server.requests] == ["/v1/admin/checks"]
    assert said[0]["check"] == "installation"
    assert said[0]["found"].startswith("http://127.0.0.1:")
    assert said[1] == finding


def test_top_and_state_use_the_api(server: Server) -> None:
    server.answer = {"shards": [], "queues": []}
    assert json.loads(server.run("top", "--once", "-o", "json")) == server.answer
    server.answer = {"schedule": "default.demo.s"}
    assert json.loads(server.run("state", "show", "demo.s")) == server.answer

    assert [path for _, path, _ in server.requests] == [
        "/v1/admin/overview",
        "/v1/admin/schedules/default.demo.s/state",
    ]


def test_letters_are_listed_shown_replayed_and_purged_through_the_api(server: Server) -> None:
    server.answer = {"letters": [{"id": "0/1", "topic": "partitions"}], "next": "cursor", "purged": 3}
    server.answer |= {"id": "0/1", "topic": "partitions", "partition": 2}

    assert "more: --after 'cursor'" in server.run("dlq", "list", "--limit", "1")
    assert "0/1" in server.run("dlq", "show", "0/1")
    assert server.run("dlq", "replay", "0/1") == "0/1 is sent again to partitions/2\n"
    assert server.run("dlq", "purge") == "3 letters are archived\n"

    assert [f"{method} {path}" for method, path, _ in server.requests] == [
        "GET /v1/admin/dead-letters?limit=1",
        "GET /v1/admin/dead-letters/0/1",
        "GET /v1/admin/dead-letters/0/1",
        "POST /v1/admin/dead-letters/0/1/replay",
        "POST /v1/admin/dead-letters/purge",
    ]


def test_the_clock_is_shown_and_confirmed_through_the_api(server: Server) -> None:
    jumped = "jumped 365d ahead at 2026-11-27 12:00:00Z; it says 2027-11-27 12:01:00Z"
    server.answer = {
        "database": "2027-11-27T12:01:00Z",
        "counted": "2026-11-27T12:01:00Z",
        "aheadSeconds": 31536000.0,
        "doubt": jumped,
        "number": 3,
        "last": {"fact": "jumped", "at": "2026-11-27T12:00:00Z", "by": "launcher-1"},
    }

    said = server.run("clock", "show")
    assert "database  2027-11-27 12:01:00Z\nprocesses 2026-11-27 12:01:00Z\n" in said
    assert f"the database's clock {jumped}; nothing expires, is killed or deleted" in said
    server.run("clock", "confirm", "--yes")

    assert [f"{method} {path}" for method, path, _ in server.requests] == [
        "GET /v1/admin/clock",
        "GET /v1/admin/clock",
        "POST /v1/admin/clock/confirm",
    ]


def test_a_list_prints_a_page_and_its_cursor(server: Server) -> None:
    server.answer = {
        "schedules": [{"id": "default.a.b", "state": "enabled", "enabled": True, "program": "p", "when": "w"}],
        "next": "default.a.b",
    }

    said = server.run("schedule", "list")

    assert "more: --after 'default.a.b'" in said
    assert [path for _, path, _ in server.requests] == ["/v1/schedules?limit=100"]


def test_json_output_reads_all_pages_and_ends_at_a_repeated_cursor(server: Server) -> None:
    server.answer = {"programs": [{"id": "default.a.p"}], "next": "default.a.p"}

    assert len(json.loads(server.run("program", "list", "-o", "json"))) == 2
    assert [path for _, path, _ in server.requests] == [
        "/v1/programs?limit=1000",
        "/v1/programs?after=default.a.p&limit=1000",
    ]

"""`streamsched expectation`: what each command asks for, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.cli.test_requests import Server

MISS: dict[str, Any] = {
    "dueAt": "2026-03-02T07:00:00Z",
    "key": None,
    "reason": "default.flights was to be there by 08:00: nothing since 2026-02-28",
    "foundAt": "2026-03-02T07:00:02Z",
    "announced": True,
    "open": True,
    "cameAt": None,
}
FOUND: dict[str, Any] = {
    "id": "default.shop.flights",
    "state": "missing",
    "when": "by 08:00 Europe/Berlin every day",
    "definition": {"name": "flights", "dataset": "default.flights", "by": "08:00", "program": "ask"},
    "dueAt": "2026-03-03T07:00:00Z",
    "key": None,
    "usual": None,
    "seenAt": None,
    "openMisses": 1,
    "lastMiss": MISS,
    "stopped": None,
    "createdAt": "2026-03-01T00:00:00Z",
    "changedAt": "2026-03-01T00:00:00Z",
}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_expectations_are_listed_with_their_filters(server: Server) -> None:
    server.answer = {"expectations": [FOUND], "next": "cursor"}
    said = " ".join(server.run("expectation", "list", "--missing", "--app", "shop", "--limit", "1").split())
    assert all(part in said for part in ("shop.flights", "missing", "by 08:00", "Europe/Berlin"))
    assert "more: --after 'cursor'" in said
    assert "app=default.shop" in server.requests[-1][1]
    assert "missing=true" in server.requests[-1][1]
    server.answer = {"expectations": []}
    assert "no such expectations" in server.run("expectation", "list", "--missing")
    assert "app.expect(…)" in server.run("expectation", "list")


def test_an_expectation_is_shown_with_what_was_missing(server: Server) -> None:
    server.answer = {**FOUND, "misses": [MISS]}
    said = " ".join(server.run("expectation", "show", "shop.flights").split())
    assert server.requests[-1][1] == "/v1/expectations/default.shop.flights"
    assert "nothing since 2026-02-28" in said
    assert "ask" in said
    assert json.loads(server.run("expectation", "show", "shop.flights", "-o", "json"))["misses"] == [MISS]

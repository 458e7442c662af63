"""`streamsched grant`: what each command sends, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.cli.test_requests import Server

GRANT: dict[str, Any] = {
    "owner": "finance",
    "kind": "program",
    "name": "pay.payroll",
    "grantee": "sales",
    "state": "granted",
    "details": True,
    "reason": "",
    "by": "token:anna",
    "at": "2026-03-01T00:00:00Z",
    "suspended": [],
}
GIVEN = ("finance", "program", "pay.payroll", "sales")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_a_grant_is_given_with_details_and_a_reason(server: Server) -> None:
    server.answer = GRANT

    assert server.run("grant", "give", *GIVEN, "--details", "--reason", "the report") == (
        "program finance.pay.payroll to sales: granted with details\n"
    )

    [(method, path, _)], [body] = server.requests, server.bodies
    assert (method, path) == ("PUT", "/v1/namespaces/finance/grants")
    names = dict(zip(("kind", "name", "grantee"), GIVEN[1:], strict=True))
    assert json.loads(body) == {**names, "details": True, "reason": "the report"}


def test_a_refusal_and_a_removal_name_what_they_pause(server: Server) -> None:
    server.answer = {**GRANT, "state": "refused", "details": False, "suspended": ["sales.report.daily"]}

    for command, done, method in (("refuse", "refused", "PUT"), ("remove", "removed", "DELETE")):
        said = server.run("grant", command, *GIVEN)
        assert said == f"program finance.pay.payroll to sales: {done}\n  paused: sales.report.daily\n"
        assert server.requests[-1][0] == method
    assert json.loads(server.bodies[0])["state"] == "refused"
    assert "kind=program&name=pay.payroll&grantee=sales" in server.requests[1][1]


def test_grants_are_listed_and_an_empty_list_says_so(server: Server) -> None:
    server.answer = {"grants": [{**GRANT, "state": "pending"}], "next": "cursor"}
    said = server.run("grant", "list", "finance", "--limit", "1")
    assert "pay.payroll" in said
    assert "pending" in said
    assert "more: --after 'cursor'" in said
    server.answer = {"grants": []}
    assert "the namespace has given no grant and has none" in server.run("grant", "list", "finance")


def test_groups_and_pools_are_handed_over_and_nothing_else(server: Server) -> None:
    server.answer = {"namespace": "sales"}
    assert server.run("grant", "hand-over", "pool", "cluster", "sales") == "pool cluster belongs to namespace sales\n"
    assert [(method, path) for method, path, _ in server.requests] == [("PUT", "/v1/pools/cluster/owner")]
    with pytest.raises(AssertionError, match="KIND is group or pool"):
        server.run("grant", "hand-over", "dataset", "cluster", "sales")

"""`streamsched dapr job`: which app is meant, names, and what is deleted."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from streamsched.cli.main import make_app
from tests.unit.cli.test_requests import Server, server

__all__ = ["server"]

JOB = {"name": "backup", "schedule": "@daily", "nextFire": "2026-03-01T00:00:00Z", "fired": 0, "failurePolicy": {}}


def queues(*names: str) -> dict[str, object]:
    return {**JOB, "queues": [{"name": name} for name in names]}


def refused(server: Server, *arguments: str, code: int = 2) -> str:
    found = CliRunner().invoke(make_app(), [*arguments, "--url", server.url])
    assert found.exit_code == code, found.output
    return found.output


def test_a_job_is_scheduled_as_the_proposal_writes_it(server: Server) -> None:
    server.answer = queues("dapr.default.orders", "mail")
    printed = server.run("dapr", "job", "schedule", "--name=backup", "--schedule=@hourly", "--data=<data>")

    assert printed == "backup of orders: first delivery 2026-03-01 00:00:00Z\n"
    assert [each[:2] for each in server.requests] == [
        ("GET", "/v1/queues?after=dapr.default.&limit=2"),
        ("POST", "/v1/dapr/default/orders/jobs/backup"),
    ]
    assert json.loads(server.bodies[-1]) == {"schedule": "@hourly", "data": "<data>"}


def test_the_environment_names_the_app_and_its_namespace(server: Server) -> None:
    server.answer = JOB
    environ = {"STREAMSCHED_DAPR_APP_ID": "billing", "STREAMSCHED_DAPR_NAMESPACE": "shop"}
    server.run("dapr", "job", "schedule", "--name", "j", "--due-time", "1h", "--data", "null", **environ)

    assert [each[:2] for each in server.requests] == [("POST", "/v1/dapr/shop/billing/jobs/j")]
    assert json.loads(server.bodies[-1]) == {"dueTime": "1h", "data": None}


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((), "no app has had jobs there"),
        (("mail",), "no app has had jobs there"),
        (("dapr.default.a", "dapr.default.b"), "a, b and perhaps more have jobs there"),
    ],
)
def test_without_an_only_app_one_must_be_given(server: Server, names: tuple[str, ...], why: str) -> None:
    server.answer = queues(*names)

    said = " ".join(refused(server, "dapr", "job", "list").split())
    assert f"is not given, nor STREAMSCHED_DAPR_APP_ID, and in namespace default {why}" in said


def test_names_of_jobs_are_printed(server: Server) -> None:
    server.answer = {"jobs": [JOB, {**JOB, "name": "a b"}]}

    assert server.run("dapr", "job", "list", "-i", "orders", "-o", "name") == "backup\na b\n"


def test_all_jobs_are_deleted_with_a_confirmation(server: Server) -> None:
    server.answer = {"deleted": 3}
    assert "confirm by --yes" in refused(server, "dapr", "job", "delete", "--all", "-i", "orders", code=7)
    for wrong in (("--all", "a"), ("--all", "--prefix", "a"), ()):
        refused(server, "dapr", "job", "delete", "-i", "orders", *wrong)
    assert server.requests == []

    assert server.run("dapr", "job", "delete", "--all", "--yes", "-i", "orders") == "deleted 3\n"
    assert server.requests[-1][:2] == ("DELETE", "/v1/dapr/default/orders/jobs?all=true")


def test_the_next_deliveries_are_listed(server: Server) -> None:
    server.answer = {"name": "backup", "next": ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"]}

    printed = server.run("dapr", "job", "next", "backup", "--count", "2", "-i", "orders")
    assert printed == "2026-03-01 00:00:00Z\n2026-03-02 00:00:00Z\n"
    assert server.requests[-1][:2] == ("GET", "/v1/dapr/default/orders/jobs/backup/next?count=2")

"""All list commands: names for `xargs`, JSON as the API has it, and tables of 80 columns that keep what people need."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from streamsched.cli.main import make_app
from streamsched.cli.output import moment
from streamsched.cli.table import Column, ColumnKind
from tests.support.described_answers import api_document
from tests.unit.cli.test_requests import Server, server

__all__ = ["server"]

LONG = "flights." + "a-name-that-is-longer-than-most-" * 2


class Case(NamedTuple):
    """A list command.

    Attributes:
        path: of the API, as its document has it.
        names: members of an item that its name is made of.
        ids: whether the name is an id, which is shown without the default namespace.
        more: members of an item that the document leaves open.
    """

    path: str
    names: tuple[str, ...] = ("id",)
    ids: bool = True
    more: Mapping[str, Any] = MappingProxyType({})


NAMED = ("name",)
DAPR_JOB = {
    "name": "backup",
    "schedule": "@daily",
    "nextFire": "2026-03-01T00:00:00Z",
    "fired": 0,
    "repeats": None,
    "ttl": "2027-03-01T00:00:00Z",
    "error": "404: the app has no such job",
}
CASES = {
    "app list": Case("/v1/apps"),
    "schedule list": Case("/v1/schedules"),
    "expectation list": Case("/v1/expectations"),
    "event list": Case("/v1/events", ids=False),
    "program list": Case("/v1/programs"),
    "profile list": Case("/v1/namespaces/{namespace}/spark-profiles", NAMED, ids=False),
    "bundle list": Case("/v1/namespaces/{namespace}/bundles", ("digest",), ids=False),
    "job list": Case("/v1/jobs"),
    "run list": Case("/v1/runs"),
    "backfill list": Case("/v1/backfills"),
    "group list": Case("/v1/groups", NAMED, ids=False),
    "pool list": Case("/v1/pools", NAMED, ids=False),
    "grant list shop": Case("/v1/namespaces/{namespace}/grants", ("owner", "kind", "name", "grantee"), ids=False),
    "quota list": Case("/v1/quotas", ("namespace",), ids=False),
    "cluster list": Case("/v1/clusters", NAMED, ids=False),
    "queue list": Case("/v1/queues", NAMED, ids=False),
    "task list mail": Case("/v1/queues/{queue}/tasks", ids=False),
    "dapr job list -i orders": Case("/v1/dapr/{namespace}/{app}/jobs", NAMED, ids=False, more=DAPR_JOB),
    "dataset list": Case("/v1/datasets"),
    "bookmark list": Case("/v1/bookmarks", NAMED, ids=False),
    "dlq list": Case("/v1/admin/dead-letters", ids=False),
    "webhook list": Case("/v1/namespaces/{namespace}/webhooks", NAMED, ids=False),
    "token list": Case("/v1/tokens", NAMED, ids=False, more={"grants": [{"role": "viewer", "namespace": "*"}]}),
    "audit list": Case("/v1/audit", ("number",), ids=False, more={"detail": {"status": 200, "request": 7}}),
}
DOCUMENT = api_document()
APP = make_app()


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("far", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00"])
def test_an_instant_without_a_local_time_is_printed_as_it_is(far: str) -> None:
    assert moment(far) == far


def answer(case: Case) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The example of the API's document with two items, whose names are long; and the items."""
    content = DOCUMENT["paths"][case.path]["get"]["responses"]["200"]["content"]["application/json"]
    found: dict[str, Any] = json.loads(json.dumps(content["example"]))
    found.pop("next", None)
    member = next(name for name, value in found.items() if isinstance(value, list))
    item = {**found[member][0], **case.more}
    last = case.names[-1]
    items = [
        {**item, last: number if isinstance(item[last], int) else f"default.{LONG}{number}"} for number in range(2)
    ]
    if case.path == "/v1/quotas":
        items = [{**each, "quotas": [{**use, **each} for use in item["quotas"]]} for each in items]
    found[member] = items
    return found, items


def name_of(item: dict[str, Any], case: Case) -> str:
    name = " ".join(str(item[member]) for member in case.names)
    return name.removeprefix("default.") if case.ids else name


def list_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from list_commands(inner, (*path, name))
        elif name == "list":
            yield " ".join((*path, name)), inner


COMMANDS = dict(list_commands(get_command(APP)))


def test_every_list_command_of_the_api_is_here() -> None:
    assert {words.partition("list")[0] + "list" for words in CASES} == set(COMMANDS) - {"context list"}


@pytest.mark.parametrize("words", CASES)
def test_names_are_those_of_the_items(server: Server, words: str) -> None:
    server.answer, items = answer(CASES[words])

    assert server.run(*words.split(), "-o", "name").splitlines() == [name_of(each, CASES[words]) for each in items]


@pytest.mark.parametrize("words", CASES)
def test_json_is_what_the_api_has(server: Server, words: str) -> None:
    server.answer, items = answer(CASES[words])

    assert json.loads(server.run(*words.split(), "-o", "json")) == items


@pytest.mark.parametrize("output", ["table", "wide"])
@pytest.mark.parametrize("words", CASES)
def test_a_table_has_whole_names_and_times_with_their_zone(server: Server, words: str, output: str) -> None:
    server.answer, items = answer(CASES[words])
    shown = server.run(*words.split(), "-o", output, COLUMNS="80")

    for each in items:
        assert all(str(each[member]).removeprefix("default.") in shown for member in CASES[words].names), shown
    assert re.findall(r"\d\d:\d\d:\d\d(?![+-]\d\d:\d\d)\S*", shown) == [], shown


@pytest.mark.parametrize("words", CASES)
def test_what_is_of_a_namespace_is_listed_by_namespace(words: str) -> None:
    command, operation = COMMANDS[words.partition("list")[0] + "list"], DOCUMENT["paths"][CASES[words].path]["get"]
    of_namespace = any(each.get("name") == "namespace" for each in operation["parameters"])

    assert any(each.name == "namespace" for each in command.params) == of_namespace


@pytest.mark.parametrize("kind", [ColumnKind.ID, ColumnKind.TIME, ColumnKind.REASON])
def test_a_column_of_ids_times_or_reasons_cannot_be_omitted(kind: ColumnKind) -> None:
    with pytest.raises(ValueError, match="never omitted"):
        Column("at", kind=kind, optional=1)


def test_names_of_contexts_are_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("STREAMSCHED_CONFIG_DIR", str(tmp_path))
    for name in ("prod", "default.test"):
        CliRunner().invoke(APP, ["context", "set", name, "--url", "http://127.0.0.1:1"])

    assert CliRunner().invoke(APP, ["context", "list", "-o", "name"]).output.split() == ["prod", "default.test"]

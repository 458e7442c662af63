"""Every command of the tree: those that print a thing or a list have one set of formats, which are right everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from streamsched.cli.main import make_app
from streamsched.cli.output import Format
from tests.support.described_answers import operation_of
from tests.unit.cli.test_lists import in_berlin
from tests.unit.cli.test_requests import Server

__all__ = ["in_berlin"]

#: Commands without `--output`, by what they do instead of printing a thing or a list.
OTHERS: Final = {
    "are processes": "dev worker launcher api dapr_serve watch_delta watch_iceberg watch_folder watch_topic",
    "print what a program prints": "run_logs graph_run",
    "write or read a file": "state_export state_import dapr_job_export dapr_job_import",
    "change what has no answer": "migrate reshard dapr_job_delete",
}
#: Words that begin the commands whose answer is shown as it is, and the names it has.
SHOWING: Final[Mapping[str, list[str]]] = {
    "app show a": ["flights"],
    "schedule show a.b": ["flights.weekly"],
    "schedule why-not a.b": ["flights.weekly"],
    "schedule history a.b": ["2026-03-01T06:00:00Z created"],
    "schedule next a.b": ["flights.weekly"],
    "schedule next": ["flights.weekly"],
    "schedule keys a.b": ["day=2026-03-01"],
    "schedule versions a.b": ["1"],
    "schedule enable a.b": ["flights.weekly"],
    "schedule resume a.b": ["flights.weekly"],
    "expectation show a.b": ["shop.flights"],
    "event why e": ["e"],
    "profile show large": ["large"],
    "profile set large x=1": ["large"],
    "job show a.b.1.1": ["flights.weekly.1.1"],
    "job why a.b.1.1": ["flights.weekly.1.1"],
    "job force a.b.1.1": ["flights.weekly.1.1"],
    "job cancel a.b.1.1": ["flights.weekly.1.1"],
    "job hold a.b.1.1": ["flights.weekly.1.1"],
    "job release a.b.1.1": ["flights.weekly.1.1"],
    "program start a.p": ["flights.weekly.1.1"],
    "run show a.b.1.1.r1": ["flights.weekly.1.1.r1"],
    "run kill a.b.1.1.r1": ["flights.weekly.1.1.r1"],
    "backfill show a.b.backfill-1": ["flights.weekly.backfill-1"],
    "backfill pause a.b.backfill-1": ["flights.weekly.backfill-1"],
    "backfill resume a.b.backfill-1": ["flights.weekly.backfill-1"],
    "backfill cancel a.b.backfill-1": ["flights.weekly.backfill-1"],
    "graph status flights": ["flights.report"],
    "graph show flights": ["flights.report 20260301"],
    "graph why flights.report 20260301": ["flights.report 20260301"],
    "group set warehouse 1": ["warehouse"],
    "pool set nightly 1": ["nightly"],
    "pool prioritize a.b 1": ["a.b"],
    "grant give finance program pay.payroll sales": ["finance dataset pay.payroll sales"],
    "grant refuse finance program pay.payroll sales": ["finance dataset pay.payroll sales"],
    "grant hand-over group licences sales": ["licences"],
    "quota show sales": ["schedules"],
    "quota set sales schedules 1": ["schedules"],
    "quota unset sales schedules": ["schedules"],
    "namespace preferences show sales": ["region"],
    "namespace preferences set sales a=b": ["region"],
    "namespace preferences delete sales a": ["region"],
    "queue show mail": ["mail"],
    "queue pause mail": ["mail"],
    "queue resume mail": ["mail"],
    "task show 5f0c": ["5f0c"],
    "task why 5f0c": ["5f0c"],
    "task cancel 5f0c": ["5f0c"],
    "task drop 5f0c": ["5f0c"],
    "task run 5f0c": ["5f0c"],
    "task move 5f0c --after 1h": ["5f0c"],
    "lane why mail customer-7": ["customer-7"],
    "dapr job get backup -i orders": ["backup"],
    "dapr job next backup -i orders": ["backup"],
    "dataset show clicks": ["clicks"],
    "bookmark show watch.default.flights": ["watch.default.flights"],
    "dlq show 0/17": ["0/17"],
    "dlq replay 0/17": ["0/17"],
    "dlq purge": [],
    "webhook show alerts": ["alerts"],
    "webhook disable alerts": ["alerts"],
    "webhook enable alerts": ["alerts"],
    "token current": ["token:ci"],
    "audit verify": ["9f86d0"],
    "doctor": ["installation", "clocks"],
    "state show a.b": ["a.b"],
    "top --once": ["3"],
}
#: What the document leaves open, by the path it is an answer of.
OPEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "/v1/tasks/5f0c": {"attempts": []},
    "/v1/caller": {"grants": [{"role": "viewer", "namespace": "*"}]},
    "/v1/dapr/default/orders/jobs/backup": {"task": {"id": "5f0c"}, "history": []},
    "/v1/admin/overview": {
        "shards": [
            {"shard": 3, "worker": "w", "state": "ok", "epoch": 1, "sinceSeconds": None, "doing": "reading",
             "behind": 0, "turnsPerSecond": 0.0, "eventsPerSecond": 0.0, "chunk": 1, "recoverySeconds": 0.3,
             "rows": 4, "inError": 0}
        ],
        "queues": [],
    },
}  # fmt: skip
APP: Final = make_app()


class DescribedServer(Server):
    """Responds with the examples of the API's document."""

    def answer_to(self, method: str, path: str) -> Any:
        operation = operation_of(method, path)
        assert operation is not None, f"{method} {path} is no operation of the API"
        content = next(answer["content"] for status, answer in operation["responses"].items() if status < "300")
        found: Any = json.loads(json.dumps(content["application/json"]["example"]))
        return {**found, **OPEN.get(path, {})}


@pytest.fixture(scope="module")
def described() -> Iterator[DescribedServer]:
    server = DescribedServer()
    yield server
    server.close()


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
    for name, each in (inner or {}).items():
        yield from _leaves(each, (*path, name))


COMMANDS: Final = dict(_leaves(get_command(APP)))


def _formats(command: Any) -> set[str]:
    """The values of `--output`; none without it."""
    options = [each for each in command.params if "--output" in each.opts]
    return {value for each in options for value in each.type_descriptor.annotation}


def test_what_prints_a_thing_or_a_list_takes_each_format() -> None:
    without = {name.replace("_", " ") for names in OTHERS.values() for name in names.split()}
    formats = {name: _formats(command) for name, command in COMMANDS.items()}

    assert {name for name, found in formats.items() if not found} == without
    assert [name for name, found in formats.items() if found and not found >= set(Format)] == []


def test_every_command_that_shows_is_here() -> None:
    words = re.compile(r"(show|why|why-not|history|next|keys|versions|status|get|current)$")
    shown = {name for name in COMMANDS if words.search(name)}

    elsewhere = {"cron next", "clock show"}
    assert {name for name in shown if not any(case.startswith(name) for case in SHOWING)} == elsewhere


@pytest.mark.parametrize("words", SHOWING)
def test_each_format_has_the_answer(described: DescribedServer, words: str) -> None:
    outputs = {each: described.run(*words.split(), "-o", each.value, COLUMNS="80") for each in Format}

    assert outputs[Format.NAME].splitlines() == SHOWING[words]
    assert yaml.safe_load(outputs[Format.YAML]) == json.loads(outputs[Format.JSON])
    for each in (Format.TABLE, Format.WIDE):
        assert outputs[each].strip()
        with pytest.raises(json.JSONDecodeError):
            json.loads(outputs[each])


#: Prints times in the zone of the trigger, and in UTC.
OF_TRIGGERS: Final = "schedule next a.b"


@pytest.mark.parametrize("words", sorted(SHOWING.keys() - {OF_TRIGGERS}))
@pytest.mark.usefixtures("in_berlin")
def test_times_are_local_with_their_zone(described: DescribedServer, words: str) -> None:
    shown = described.run(*words.split(), "-o", "table", COLUMNS="80")

    assert re.findall(r"\d\d:\d\d:\d\d(?![+-]\d\d:\d\d)\S*", shown) == []


def test_a_replay_prints_the_schedule_and_fails_while_it_is_in_error(described: DescribedServer) -> None:
    words = ["schedule", "replay", "a.b", "--wait", "0", "-o", "name", "--url", described.url]
    found = CliRunner().invoke(APP, words)

    assert (found.exit_code, found.output) == (1, "flights.weekly\n")


def test_a_clock_has_no_name(described: DescribedServer) -> None:
    found = CliRunner().invoke(APP, ["clock", "show", "-o", "name", "--url", described.url])

    assert (found.exit_code, "has no names" in found.output) == (2, True)


def test_ticks_of_an_expression_are_named_by_their_instants() -> None:
    found = CliRunner().invoke(APP, ["cron", "next", "@daily", "-n", "2", "-o", "name", "--after", "2026-03-01"])

    assert found.output.split() == ["2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"]


@pytest.mark.parametrize("words", SHOWING)
def test_what_is_in_a_namespace_can_be_named_in_any(described: DescribedServer, words: str) -> None:
    """By an option or argument, or in its own name."""
    before = len(described.requests)
    described.run(*words.split(), "-o", "json")
    asked = [operation_of(method, path.partition("?")[0]) or {} for method, path, _ in described.requests[before:]]
    name = max((each for each in COMMANDS if words.startswith(each)), key=len)
    texts = " ".join(f"{each.name} {each.help}" for each in COMMANDS[name].params).lower()

    if any(each["name"] == "namespace" and each["in"] == "path" for one in asked for each in one["parameters"]):
        assert "namespace" in texts

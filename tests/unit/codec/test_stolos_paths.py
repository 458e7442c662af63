"""Paths of errors are those of the `tasks.json` that was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamsched.cli.main import make_app
from streamsched.dialects.stolos.codec.paths import given_path, given_paths
from streamsched.dialects.stolos.codec.tasks import stolos_from_json
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.graph import check_graph

A = {"job_id": "{date}_{client}", "bash_cmd": "true"}
WIDE = {"job_id": "{date}", "bash_cmd": "true"}


def on(*entries: Any, **more: Any) -> dict[str, Any]:
    return {**WIDE, "depends_on": entries[0] if len(entries) == 1 else list(entries), **more}


@pytest.mark.parametrize(
    ("tasks", "path"),
    [
        ({"a": A, "b": on({"app_name": ["a", "gone"], "client": [1]})}, "$.b.depends_on.app_name[1]"),
        ({"a": A, "b": on({"app_name": ["a"], "client": "all"})}, "$.b.depends_on.client"),
        ({"a": A, "b": on({"app_name": ["a"], "client": [1, 1]})}, "$.b.depends_on.client"),
        ({"a": A, "b": on({"app_name": ["a"]})}, "$.b.depends_on"),
        ({"a": A, "b": on({"default": {"app_name": ["gone"]}})}, "$.b.depends_on.default.app_name[0]"),
        ({"a": A, "b": on({"default": [{"app_name": ["gone"]}]})}, "$.b.depends_on.default[0].app_name[0]"),
        (
            {"a": A, "b": on({"default": [{"app_name": ["a"], "client": [1]}, {"app_name": ["gone"]}]})},
            "$.b.depends_on.default[1].app_name[0]",
        ),
        ({"a": A, "b": on({"g1": [{"app_name": ["gone"]}]})}, "$.b.depends_on.g1[0].app_name[0]"),
        ({"a": A, "b": on({"a": {"app_name": ["a"], "client": [1]}})}, "$.b.depends_on.a"),
        ({"a": A, "b/c": on({"app_name": ["gone"]})}, "$['b/c'].depends_on.app_name[0]"),
        ({"a": {**A, "depends_on": {"app_name": ["a"]}}}, "$.a.depends_on"),
        ({"a": {**A, "valid_if_or": {"x": [1]}}}, "$.a.valid_if_or.x"),
        ({"a": {**A, "autofill_values": {"x": [1]}}}, "$.a.autofill_values.x"),
        ({"a": {**A, "depends_on": {"app_name": ["b"], "date": ["x_y"]}}, "b": A}, "$.a.depends_on.date[0]"),
    ],
)
def test_a_path_is_that_of_the_document(tasks: dict[str, Any], path: str) -> None:
    found = stolos_from_json(tasks)
    with pytest.raises(InvalidDefinitionError) as caught, given_paths(tasks, found.names):
        check_graph([each.task for each in found.tasks])
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("$.programs.a.command", "$.a.bash_cmd"),
        ("$.schedules.a.trigger", "$.a"),
        ("$.tasks.a-b.validations", "$['a/b']"),
        ("$.tasks.none", "$"),
        ("$", "$"),
        ("$.namespace", "$"),
        ("$.tasks['a'].job_id", "$.a.job_id"),
    ],
)
def test_what_the_document_does_not_have_is_the_nearest_that_it_has(path: str, there: str) -> None:
    assert given_path(path, {"a": A, "a/b": A}, {"a": "a", "a/b": "a-b"}) == there


def test_a_task_of_the_name_tasks_is_a_task() -> None:
    assert given_path("$.tasks.bash_cmd", {"tasks": A}, {"tasks": "tasks"}) == "$.tasks.bash_cmd"


def test_the_command_names_source_and_path(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({"a/x": A, "b": on({"app_name": ["a/x"], "client": [1, 1]})}))
    found = CliRunner().invoke(make_app(), ["import", "stolos", str(file), "--dry-run"])
    assert found.exit_code != 0
    said = " ".join(str(found.exception or "").split()) + found.output
    assert "b.depends_on.client" in said.replace("\n", ""), said


def test_the_command_prints_its_report_for_programs(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({"a/x": A}))
    found = CliRunner().invoke(make_app(), ["import", "stolos", str(file), "--dry-run", "-o", "json"])

    report = json.loads(found.stdout)
    assert [report[name] for name in ("app", "tasks", "deployed")] == ["default.stolos", ["a-x"], False]
    assert all(each.keys() == {"path", "text"} for each in report["differences"])

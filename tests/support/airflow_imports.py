"""Imports of DAG files, and what tests look at in them."""

from __future__ import annotations

from typing import Any

from streamsched.codec.moving.draft import Imported
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.dialects.airflow.codec.answers import AirflowAnswers
from streamsched.dialects.airflow.codec.dag_file import dags_from_source
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.task import NodeId

HEAD = """
from datetime import datetime, timedelta
from airflow import DAG
from airflow.decorators import dag, task, task_group
from airflow.models.baseoperator import chain
from airflow.operators.bash import BashOperator
from airflow.utils.trigger_rule import TriggerRule
"""


def read(source: str, **answers: Any) -> Imported:
    """The import of a file; each app is accepted as an app file is."""
    found = dags_from_source(source.encode(), namespace="default", answers=AirflowAnswers(**answers))
    for app in found.apps:
        app_from_json(app)
    return found


def one(body: str, dag: str = "schedule='@daily'", **answers: Any) -> tuple[dict[str, Any], Imported]:
    """The app of one DAG with these statements."""
    inner = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    found = read(f"{HEAD}with DAG('d', {dag}) as d:\n{inner}", **answers)
    [app] = found.apps
    return app, found


def rows(found: Imported, subject: str) -> list[tuple[str, str]]:
    return [(note.kind.value, note.text) for note in found.notes if note.subject == subject]


def parents(app: dict[str, Any], task: str) -> list[str]:
    graph = Graph(app_from_json(app).tasks)
    groups = graph.parents(NodeId(task, "20240102T000000"))
    return sorted({parent.task for group in groups for parent in group.parents})


def is_placeholder(app: dict[str, Any], name: str) -> bool:
    return "replace this program" in app["programs"][name].get("command", "")


# What was found from outside: each of these failed before.

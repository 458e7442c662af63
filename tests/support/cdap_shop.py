"""An import of one application of CDAP, `shop`, and what a test reads of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamsched.codec.moving.draft import NoteKind
from streamsched.codec.moving.imported_run import imported_run_from_json, imported_run_to_json
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.dialects.cdap.codec.dump.dump import DumpRequest, ImportedDump, import_dump
from tests.support.cdap_dump import Answers, SavedAnswers, application

APP = ("namespaces", "default", "apps", "shop")


def answers(more: Mapping[tuple[str, ...], Any] | None = None, **nodes: Any) -> Answers:
    """One application `shop`; workflows with other nodes by name."""
    found: Answers = {
        ("namespaces",): [{"name": "default"}],
        ("namespaces", "default", "apps"): [{"name": "shop"}],
        **application("default", "shop", 1),
        (*APP, "schedules"): [],
    }
    for name, each in nodes.items():
        found[*APP, "workflows", name] = {"name": name, "nodes": each}
    return {**found, **(more or {})}


def read(given: Answers, **request: Any) -> ImportedDump:
    """The import; each of its apps is accepted as an app file is."""
    found = import_dump(SavedAnswers(given), DumpRequest(**request))
    for app in found.imported.apps:
        app_from_json(app)
    for run in found.runs:
        assert imported_run_from_json(json.loads(json.dumps(imported_run_to_json(run)))) == run
    return found


def only(found: ImportedDump) -> dict[str, Any]:
    (app,) = found.imported.apps
    return app


def refused(found: ImportedDump) -> dict[str, str]:
    return {note.path: note.text for note in found.imported.notes_of(NoteKind.REFUSED)}


def needs(app: dict[str, Any]) -> dict[str, Any]:
    return {name: task.get("depends_on") for name, task in app["tasks"].items()}


def on(
    program: str, name: str = "after", statuses: tuple[str, ...] = ("COMPLETED",), app: str = "shop"
) -> dict[str, Any]:
    return {
        "namespace": "default",
        "application": "shop",
        "name": name,
        "program": {"programName": "load", "programType": "WORKFLOW"},
        "trigger": {
            "type": "PROGRAM_STATUS",
            "programId": {"namespace": "default", "application": app, "type": "Workflow", "program": program},
            "programStatuses": list(statuses),
        },
    }

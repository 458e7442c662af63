"""A made-up CDAP, as the answers of its REST API: applications with programs, workflows, schedules of all kinds,
preferences and runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

Answers = dict[tuple[str, ...], Any]

NAMESPACES = ("default", "sales")
_ODD_NAMES = ("daily load", "every.hour", "üblich", "a b.c", "(1) first")


def action(program: str, kind: str = "SPARK", node: str = "") -> dict[str, Any]:
    return {
        "nodeType": "ACTION",
        "nodeId": node or program,
        "program": {"programName": program, "programType": kind},
    }


def fork(*branches: list[Any]) -> dict[str, Any]:
    return {"nodeType": "FORK", "nodeId": "fork", "branches": list(branches)}


def condition(name: str, first: list[Any], second: list[Any]) -> dict[str, Any]:
    return {"nodeType": "CONDITION", "nodeId": name, "ifBranch": first, "elseBranch": second}


def dump(
    schedules: int = 200, apps: int = 40, runs: int = 100, *, seed: int = 1, busy: int = 6, newest: int = 1_700_000_000
) -> Answers:
    """The answers by their paths.

    Args:
        runs: of each workflow of the first `busy` apps.
        newest: seconds since 1970 at which the newest of them ended.
    """
    random = Random(seed)
    found: Answers = {
        ("namespaces",): [{"name": name, "description": ""} for name in NAMESPACES],
        ("preferences",): {"env": "production", "system.profile.name": "big"},
    }
    names: dict[str, list[str]] = {namespace: [] for namespace in NAMESPACES}
    for number in range(apps):
        names[NAMESPACES[number % 2]].append(f"app{number:02}")
    for namespace, own in names.items():
        found["namespaces", namespace, "apps"] = [{"type": "App", "name": name} for name in own]
    found["namespaces", "default", "preferences"] = {"limit": "10"}
    found["namespaces", "sales", "preferences"] = {"region": "emea", "limit": "10"}
    ends = [(namespace, app, "load") for namespace, own in names.items() for app in own]
    for number in range(apps):
        namespace = NAMESPACES[number % 2]
        found |= application(namespace, f"app{number:02}", number)
        listed = [
            schedule(random, namespace, f"app{number:02}", index, ends)
            for index in range(schedules // apps + (number < schedules % apps))
        ]
        found["namespaces", namespace, "apps", f"app{number:02}", "schedules"] = listed
        if number < busy:
            for workflow in ("load", "report"):
                path = ("namespaces", namespace, "apps", f"app{number:02}", "workflows", workflow, "runs")
                found[path] = [record(f"{number}-{workflow}-{each}", each, newest=newest) for each in range(runs)]
    return found


def application(namespace: str, name: str, number: int = 0) -> Answers:
    """One application: workflow `load` of one Spark program, `report` with a fork, and what cannot be carried."""
    at = ("namespaces", namespace, "apps", name)
    programs = [
        *(("Workflow", each) for each in ("load", "report")),
        *(("Spark", each) for each in ("join", "clean", "sum up")),
        *([("Mapreduce", "count")] if number % 3 == 0 else []),
        *([("Service", "lookup")] if number % 10 == 0 else []),
    ]
    found: Answers = {
        at: {
            "name": name,
            "appVersion": "-SNAPSHOT",
            "description": "made up",
            "artifact": {"name": name, "version": f"1.{number}.0", "scope": "USER"},
            "datasets": [],
            "streams": [],
            "plugins": [],
            "programs": [{"type": kind, "app": name, "name": each, "description": ""} for kind, each in programs],
        },
        (*at, "workflows", "load"): {"className": "com.acme.Load", "name": "load", "nodes": [action("join")]},
        (*at, "workflows", "report"): {
            "className": "com.acme.Report",
            "name": "report",
            "nodes": [action("join"), fork([action("clean")], [action("sum up"), action("join", node="again")])],
        },
    }
    for kind, each in programs:
        if kind == "Spark":
            found[*at, "spark", each] = {
                "className": "com.acme.JoinSpark",
                "mainClassName": "com.acme.Join",
                "name": each,
                "driverResources": {"virtualCores": 1, "memoryMB": 1024},
                "executorResources": {"virtualCores": 2, "memoryMB": 2048},
                "properties": {},
            }
        elif kind == "Mapreduce":
            found[*at, "mapreduce", each] = {"className": "com.acme.Count", "name": each, "inputDataSet": "lines"}
    if number % 4 == 0:
        found[*at, "preferences"] = {"owner": "team"}
        found[*at, "workflows", "load", "preferences"] = {"limit": "5"}
    return found


def record(name: str, number: int, *, newest: int = 1_700_000_000, status: str = "") -> dict[str, Any]:
    """A run record, the `number`th before `newest` (seconds since 1970), an hour apart."""
    end = newest - number * 3600
    return {
        "runid": f"{name}-1f2e-11ee",
        "starting": end - 65,
        "start": end - 60,
        "end": end,
        "status": status or ("COMPLETED", "COMPLETED", "FAILED", "KILLED")[number % 4],
        "properties": {"runtimeArgs": json.dumps({"logical.start.time": str(end * 1000), "day": "x"})},
        "cluster": {"status": "DEPROVISIONED"},
        "profile": {"profileName": "native", "namespace": "system", "entity": "PROFILE"},
    }


def schedule(random: Random, namespace: str, app: str, index: int, ends: list[tuple[str, str, str]]) -> dict[str, Any]:
    """A `ScheduleDetail` of `load`, or each third of `report`."""
    name = f"{_ODD_NAMES[index % 5]} {index}" if index % 3 == 0 else f"schedule-{index}"
    constraints: list[dict[str, Any]] = [
        {"type": "CONCURRENCY", "maxConcurrency": random.randint(1, 5), "waitUntilMet": random.random() < 0.5},
        {"type": "DELAY", "millisAfterTrigger": 60_000 * random.randint(1, 60), "waitUntilMet": True},
        {"type": "LAST_RUN", "millisSinceLastRun": 60_000 * random.randint(1, 60), "waitUntilMet": False},
        {
            "type": "TIME_RANGE",
            "timeZone": "Europe/Berlin",
            "startTime": "22:00",
            "endTime": "06:00",
            "waitUntilMet": True,
        },
    ]
    return {
        "namespace": namespace,
        "application": app,
        "applicationVersion": "-SNAPSHOT",
        "name": name,
        "description": f"number {index}",
        "program": {"programName": "report" if index % 3 == 2 else "load", "programType": "WORKFLOW"},
        "properties": {"number": str(index)} if index % 2 else {},
        "trigger": trigger(random, namespace, ends, index % 6),
        "constraints": [each for each in constraints if random.random() < 0.4],
        "timeoutMillis": random.choice((86_400_000, 3_600_000)),
        "status": random.choice(("SCHEDULED", "SUSPENDED")),
        "lastUpdateTime": 1_700_000_000_000,
    }


def trigger(random: Random, namespace: str, ends: list[tuple[str, str, str]], kind: int) -> dict[str, Any]:
    match kind:
        case 0:
            return {"type": "TIME", "cronExpression": f"{random.randrange(60)} {random.randrange(24)} 29 2 ?"}
        case 1:
            dataset = {"dataset": f"lines.{random.randrange(9)}", "namespace": namespace, "entity": "DATASET"}
            return {"type": "PARTITION", "dataset": dataset, "numPartitions": random.randint(1, 9)}
        case 2:
            stream = {"stream": f"clicks{random.randrange(9)}", "namespace": namespace, "entity": "STREAM"}
            return {"type": "STREAM_SIZE", "streamId": stream, "triggerMB": random.randint(1, 999)}
        case 3:
            owner, app, program = random.choice(ends)
            return {
                "type": "PROGRAM_STATUS",
                "programId": {
                    "namespace": owner,
                    "application": app,
                    "version": "-SNAPSHOT",
                    "type": "Workflow",
                    "program": program,
                    "entity": "PROGRAM",
                },
                "programStatuses": sorted(random.sample(("COMPLETED", "FAILED", "KILLED"), random.randint(1, 3))),
            }
        case _:
            inner = [trigger(random, namespace, ends, each) for each in random.sample(range(4), 2)]
            return {"type": "AND" if kind == 4 else "OR", "triggers": inner}


def save(answers: Mapping[tuple[str, ...], Any], folder: Path) -> None:
    """Writes the answers as `curl` would save them: a file for each address below /v3."""
    for path, answer in answers.items():
        *above, last = (quote(each, safe="") for each in path)
        file = folder.joinpath(*above, f"{last}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(answer))


class SavedAnswers:
    """`CdapAnswers` in memory."""

    def __init__(self, answers: Mapping[tuple[str, ...], Any]) -> None:
        self.answers = answers

    def read(self, *path: str, most: int | None = None) -> Any:
        found = self.answers.get(path)
        return found[:most] if most is not None and isinstance(found, list) else found

"""Alerts and the board use metrics that exist, with labels that they have; each alert has its section, and fires."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from streamsched.telemetry.metric_table import PREFIX, TABLE, MetricKind
from tests.support.services import need_program

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "compose" / "prometheus" / "alerts.yaml"
ALERTS: Final[dict[str, dict[str, Any]]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}
BOARD: Final = json.loads((ROOT / "compose" / "grafana" / "streamsched.json").read_text())
PANELS: Final = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS: Final = {
    **{name: rule["expr"] for name, rule in ALERTS.items()},
    **{panel["title"]: " ".join(target["expr"] for target in panel["targets"]) for panel in PANELS},
}
#: Labels that Prometheus adds.
_ADDED: Final = {"le", "job", "instance", "part", "role"}

#: Alert → series that make it fire, as promtool writes them: a start, a step and how often, once a minute.
FIRE: Final = {
    "StreamschedProcessDown": {'up{job="streamsched", instance="w"}': "0x20"},
    "StreamschedNotMeasured": {"up": "1x20"},
    "StreamschedShardUnowned": {"streamsched_shards": "4x20", "streamsched_shards_leased": "3x20"},
    "StreamschedShardBehind": {'streamsched_shard_lag_records{shard="1"}': "20000x20"},
    "StreamschedJobsLate": {
        'streamsched_event_to_job_seconds_bucket{le="5.0"}': "0+1x20",
        'streamsched_event_to_job_seconds_bucket{le="10.0"}': "0+9x20",
        'streamsched_event_to_job_seconds_bucket{le="+Inf"}': "0+9x20",
    },
    "StreamschedIntakeBehind": {
        'streamsched_intake_lag_records{topic="launch", partition="0"}': "6000x20",
        'streamsched_intake_lag_records{topic="launch", partition="1"}': "6000x20",
    },
    "StreamschedTimersLate": {"streamsched_timers_late_seconds": "31x20"},
    "StreamschedClockJumped": {"streamsched_clock_ahead_seconds": "-86400x20"},
    "StreamschedMachineClockOff": {'streamsched_machine_clock_ahead_seconds{host="a"}': "-2x20"},
    "StreamschedSnapshotHeld": {"streamsched_snapshot_held_seconds": "601x20"},
    "StreamschedExpectationsNotJudged": {"streamsched_expectations_late_seconds": "301x20"},
    "StreamschedDataMissing": {'streamsched_expectations_missing{namespace="sales"}': "1x20"},
    "StreamschedOutboxStuck": {"streamsched_outbox_records": "101x20"},
    "StreamschedLaunchesStuck": {'streamsched_jobs_waiting{state="PENDING_LAUNCH"}': "101x20"},
    "StreamschedLaunchFailures": {'streamsched_jobs_ended_lately{state="LAUNCH_FAILED"}': "1x20"},
    "StreamschedRunsLost": {'streamsched_runs_ended_lately{program="p", state="LOST"}': "1x20"},
    "StreamschedProgramFails": {'streamsched_runs_ended_lately{program="p", state="FAILED"}': "3x20"},
    "StreamschedScheduleInError": {'streamsched_shard_schedules_in_error{shard="1"}': "1x20"},
    "StreamschedEventsRejected": {'streamsched_events_rejected_total{dialect="native"}': "0+5x20"},
    "StreamschedQuotaNearlyUsed": {'streamsched_quota_use_ratio{namespace="sales", quota="schedules"}': "0.81x20"},
    "StreamschedTasksLate": {'streamsched_queue_late_seconds{queue="q"}': "61x20"},
    "StreamschedTasksGivenUp": {'streamsched_queue_exhausted_total{queue="q"}': "0+1x20"},
    "StreamschedWebhookFails": {'streamsched_webhook_failing_seconds{webhook="default.w"}': "3601x20"},
    "StreamschedWebhookGivenUp": {'streamsched_webhook_given_up{webhook="default.w"}': "1x20"},
    "StreamschedLoopRestarts": {'streamsched_task_restarts_total{task="relay"}': "0+1x20"},
    "StreamschedApiErrors": {
        'streamsched_http_requests_total{status="200"}': "0+90x20",
        'streamsched_http_requests_total{status="503"}': "0+10x20",
    },
}
#: What must be silent: a healthy installation.
HEALTHY: Final = {
    'up{job="streamsched", instance="w"}': "1x20",
    "streamsched_shards": "4x20",
    "streamsched_shards_leased": "4x20",
    'streamsched_shard_lag_records{shard="1"}': "100x20",
    'streamsched_event_to_job_seconds_bucket{le="5.0"}': "0+9x20",
    'streamsched_event_to_job_seconds_bucket{le="+Inf"}': "0+9x20",
    'streamsched_quota_use_ratio{namespace="sales", quota="schedules"}': "0.8x20",
    "streamsched_outbox_records": "0 500 0 500 0 500 0 500 0 500 0 500 0 500 0 500",
    'streamsched_runs_ended_lately{program="p", state="FAILED"}': "3x20",
    'streamsched_runs_ended_lately{program="p", state="COMPLETED"}': "1x20",
    'streamsched_http_requests_total{status="200"}': "0+90x20",
}


def series() -> dict[str, set[str]]:
    """The names of all series, with their labels."""
    found: dict[str, set[str]] = {}
    for metric in TABLE:
        suffixes = ("_bucket", "_count", "_sum") if metric.kind is MetricKind.HISTOGRAM else ("",)
        found |= {f"{PREFIX}{metric.name}{suffix}": {*metric.labels, *_ADDED} for suffix in suffixes}
    return found


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of an expression with the labels that select them."""
    for name, selector in re.findall(rf"\b({PREFIX}\w+)(?:{{([^}}]*)}})?", expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]~?", selector))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_metrics_and_labels_exist(name: str) -> None:
    expression, known = EXPRESSIONS[name], series()
    metrics = list(used(expression))

    assert metrics or expression.startswith("up{")
    for metric, selected in metrics:
        assert metric in known, metric
        assert selected <= known[metric], metric
    grouped = {label for each in re.findall(r"\bby \(([^)]*)\)", expression) for label in each.split(", ")}
    assert grouped <= set().union(*(known[metric] for metric, _ in metrics), _ADDED)


def test_every_metric_answers_a_question() -> None:
    assert [metric.name for metric in TABLE if not metric.question.endswith("?")] == []
    assert len({metric.name for metric in TABLE}) == len(TABLE)


def headings(page: Path) -> set[str]:
    """Anchors of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_a_section_of_its_runbook(name: str) -> None:
    path, _, anchor = ALERTS[name]["annotations"]["runbook_url"].partition("#")

    assert (ROOT / path).parent == ROOT / "docs" / "how-to"
    assert anchor == name.lower()
    assert anchor in headings(ROOT / path)
    assert ALERTS[name]["labels"]["severity"] in {"page", "ticket"}


def test_the_sections_of_the_runbook_are_of_alerts() -> None:
    found = {title for title in headings(ROOT / "docs/how-to/answer-an-alert.md") if title.startswith("streamsched")}

    assert found == {name.lower() for name in ALERTS}


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_promtool_accepts_the_rules_and_the_expressions_of_the_board(tmp_path: Path) -> None:
    promtool = need_program("promtool", "prometheus")
    records = [
        {"record": f"panel:{number}", "expr": target["expr"]}
        for number, (panel, target) in enumerate((panel, target) for panel in PANELS for target in panel["targets"])
    ]
    board = tmp_path / "board.yaml"
    board.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": records}]}))

    done = subprocess.run((promtool, "check", "rules", RULES, board), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_and_none_does_without_a_reason(tmp_path: Path) -> None:
    promtool = need_program("promtool", "prometheus")
    assert FIRE.keys() == ALERTS.keys()
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    cases = [(name, {"streamsched_shards": "4x20", **values}) for name, values in FIRE.items()]
    cases = [(name, FIRE[name] if name == "StreamschedNotMeasured" else values) for name, values in cases]
    tests = [
        {
            "interval": "1m",
            "name": name,
            "input_series": [{"series": each, "values": values} for each, values in given.items()],
            "promql_expr_test": [
                {
                    "expr": query,
                    "eval_time": "15m",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name in ALERTS else [],
                }
            ],
        }
        for name, given in [*cases, ("healthy", HEALTHY)]
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))

    done = subprocess.run((promtool, "test", "rules", file), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr

"""The keywords of a DAG: its schedule, whose runs are the arrivals of the graph, and limits of all its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.dialects.airflow.codec.jinja import DUE, LogicalTimes
from streamsched.dialects.airflow.codec.operators import params_as_texts, started_event
from streamsched.dialects.airflow.codec.policies import NOTIFICATIONS
from streamsched.dialects.airflow.codec.schedule import AT_DUE, ScheduleError, trigger_of
from streamsched.dialects.airflow.codec.source.keywords import DEFAULTS, Keywords
from streamsched.dialects.airflow.codec.source.literal import Instant, UnreadableError, is_list
from streamsched.domain.graph.job_template import INSTANT
from streamsched.domain.limits import MOST_SLOTS

_SCHEDULE: Final = ("schedule", "schedule_interval", "timetable")
#: Only pages of Airflow read these.
_SHOWN: Final = ("dag_display_name", "owner_links", "default_view", "orientation", "auto_register")
_TEXTS: Final = ("description", "doc_md", "tags")
_REFUSED: Final[Mapping[str, str]] = {
    **NOTIFICATIONS,
    "end_date": "a schedule has no end: `schedule disable` it then",
    "dagrun_timeout": "a run of the whole DAG has no limit; execution_timeout is one of a task",
    "access_control": "see roles: `streamsched token create`",
    "template_searchpath": "templates are not read from files",
    "user_defined_macros": "is Python; a task whose template needs one is a placeholder",
    "user_defined_filters": "is Python; a task whose template needs one is a placeholder",
    "jinja_environment_kwargs": "templates become arguments of a run",
    "render_template_as_native_obj": "templates become arguments of a run",
    "template_undefined": "a template that is not understood makes a placeholder",
    "fail_stop": "a failed task does not stop the tasks beside it",
    "fail_fast": "a failed task does not stop the tasks beside it",
    "is_paused_upon_creation": "is known only when the file is executed",
}


@dataclass
class DagSchedule:
    """The schedule of a DAG and what holds for all its tasks.

    Attributes:
        schedule: fields of the schedule that makes the arrivals, as JSON.
        times: of its runs.
        params: default arguments.
        task_constraints: constraints of the schedule of each task.
    """

    schedule: dict[str, Any]
    times: LogicalTimes
    params: dict[str, str] = field(default_factory=dict[str, str])
    task_constraints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def schedule_of(
    keywords: Keywords, defaults: Keywords | None, *, app: str, dag_id: str, version: int, stated: bool
) -> DagSchedule:
    """Reads the keywords of a DAG, and says of each what became of it.

    Args:
        defaults: the entries of `default_args`.
        app: the name of the app.
        version: 2 or 3, of Airflow.
        stated: whether the version was given; else it is said what it changes.
    """
    values = keywords.values()
    start = values.get("start_date") or (None if defaults is None else defaults.values().get("start_date"))
    found = _trigger(
        keywords, values, start if isinstance(start, Instant) else None, version, stated=stated, dag=dag_id
    )
    keywords.change("start_date", "runs begin with the deployment; `backfill` makes earlier ones")
    _catch_up(keywords, values, found, version)
    if values.get("is_paused_upon_creation") is True:
        found.schedule["enabled"] = False
        keywords.carry("is_paused_upon_creation", "the schedule is created disabled")
    elif "is_paused_upon_creation" in values:
        keywords.carry("is_paused_upon_creation", "the schedule is created enabled")
    found.params = params_as_texts(values.get("params"))
    keywords.carry("params", "default arguments of the programs whose templates name them")
    texts = [each for name in _TEXTS if (each := _text(values.get(name)))]
    if texts:
        found.schedule["description"] = "; ".join(texts)
    for name in _TEXTS:
        keywords.carry(name, "is in the description")
    for name in _SHOWN:
        keywords.change(name, "only Airflow's pages read it")
    _limits(keywords, values, found, app)
    for name, text in _REFUSED.items():
        if name in values and values[name] in (None, False, []):
            keywords.carry(name, "asks for nothing")
        else:
            keywords.refuse(name, text)
    keywords.carry(DEFAULTS, "its entries are rows of their own")
    return found


def arrival_program() -> dict[str, Any]:
    """The program of the schedule: it completes the node of the time at which it is due."""
    return {
        "type": "publish",
        "node": f"{{{DUE}}}",
        "delimiter": "_",
        "components": {DUE: "time"},
        "format": {DUE: INSTANT},
    }


def _trigger(
    keywords: Keywords, values: Mapping[str, Any], start: Instant | None, version: int, *, stated: bool, dag: str
) -> DagSchedule:
    name = next((each for each in _SCHEDULE if each in keywords), "")
    by_hand: dict[str, Any] = {"trigger": {"type": "EVENT", "event": started_event(dag)}}
    if not name:
        if version == 2:
            keywords.change("dag_id", "it has no `schedule`, which is daily in Airflow 2.3 and before; here by hand")
        return DagSchedule(by_hand, AT_DUE)
    try:
        value = keywords.value(name)
        if value is None:
            keywords.carry(name, f"none: `run start --schedule`, or event {started_event(dag)}, starts it")
            return DagSchedule(by_hand, AT_DUE)
        found = trigger_of(value, start, intervals=version == 2)
    except (UnreadableError, ScheduleError) as exc:
        keywords.refuse(name, f"{exc}: only `run start --schedule`, or event {started_event(dag)}, starts it")
        return DagSchedule(by_hand, AT_DUE)
    schedule: dict[str, Any] = {"trigger": found.trigger, "overlap": "queue"}
    if not found.clock:
        schedule = {
            "trigger": found.trigger,
            "overlap": "coalesce",
            "constraints": [{"type": "DELAY", "delay": "1s"}],
        }
    other = trigger_of(value, start, intervals=version != 2)
    read = "" if stated or other.times == found.times else _as_read(version)
    changes = "; ".join(each for each in (found.changes, read) if each)
    keywords.change(name, changes) if changes else keywords.carry(name, "the trigger of the schedule")
    return DagSchedule(schedule, found.times)


def _as_read(version: int) -> str:
    if version == 2:
        return (
            "as Airflow 2 reads it: `ds` is the begin of the interval that ends when a run is due; `--airflow 3` else"
        )
    return "as Airflow 3 reads it: `ds` is when a run is due; `--airflow 2`: the begin of the interval before"


def _catch_up(keywords: Keywords, values: Mapping[str, Any], found: DagSchedule, version: int) -> None:
    wanted = values.get("catchup", version == 2)
    found.schedule["misfire"] = "all" if wanted is not False else "one"
    if wanted is False:
        keywords.carry("catchup", "misfire one: missed ticks are made up for by one run")
    else:
        keywords.change(
            "catchup", "misfire all: missed ticks are made up for from the deployment on; `backfill` before"
        )


def _limits(keywords: Keywords, values: Mapping[str, Any], found: DagSchedule, app: str) -> None:
    for name in ("max_active_tasks", "concurrency"):
        most = values.get(name)
        if isinstance(most, int) and 0 < most <= MOST_SLOTS:
            group = {"type": "GROUP", "group": f"{app}-tasks", "limit": most, "waitUntilMet": True}
            found.task_constraints.append(group)
            keywords.carry(name, f"group {app}-tasks of all tasks, {most} slots")
    most = values.get("max_active_runs")
    if isinstance(most, int) and 0 < most <= MOST_SLOTS:
        limit = {"type": "CONCURRENCY", "maxConcurrency": most, "of": "schedule", "waitUntilMet": True}
        found.task_constraints.append(limit)
        keywords.change(
            "max_active_runs", f"each task runs {most} at a time, in order; the DAG as a whole has no limit"
        )


def _text(value: Any) -> str:
    if is_list(value):
        return ", ".join(str(each)[:100] for each in value if isinstance(each, str))
    return " ".join(value.split())[:1000] if isinstance(value, str) else ""

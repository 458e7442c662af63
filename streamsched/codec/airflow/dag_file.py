"""A Python file with DAGs, read as a syntax tree: it is never executed, and Airflow is not needed.

Each DAG becomes an app. Each of its tasks becomes a program and a schedule: the first ones start by the schedule of the
DAG, each other one when the tasks before it have succeeded.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from streamsched.codec.airflow.literal import Construction, Instant, LiteralReader, UnreadableError, called
from streamsched.codec.airflow.schedule import trigger_of
from streamsched.codec.airflow.tasks import DagTask, TaskReader, unreachable
from streamsched.codec.moving.draft import AppDraft, Imported, Report, valid_name
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import AppRef
from streamsched.domain.time.duration import duration_text

#: Bytes of a file.
LARGEST: Final = 4 * 1024 * 1024
_SCHEDULE: Final = ("schedule", "schedule_interval", "timetable")
#: Arguments of a DAG that this module reads, or that mean nothing outside Airflow.
_KNOWN: Final = frozenset(
    (*_SCHEDULE, "dag_id", "start_date", "catchup", "max_active_runs", "default_args", "description", "tags")
) | {"is_paused_upon_creation", "doc_md", "dag_display_name", "owner_links", "default_view", "orientation"}
_ALL_ENDED: Final = ["COMPLETED", "FAILED", "KILLED"]


@dataclass(frozen=True, slots=True)
class _Dag:
    """A call that makes a DAG, the statements with its tasks, and its name where the call has none. `variable`: the
    tasks name the DAG by it; empty: all tasks in the statements are of the DAG.
    """

    call: ast.Call | None
    line: int
    body: list[ast.stmt]
    name: str
    variable: str = ""


def dags_from_source(raw: bytes, *, namespace: str) -> Imported:
    """The apps of the DAGs in a file.

    Raises:
        DecodeError: it is too large, or not Python.
    """
    module = _parsed(raw)
    report, reader = Report(), LiteralReader(module)
    drafts = [draft for dag in _dags(module) if (draft := _draft(dag, reader, report, namespace)) is not None]
    _note_made_dags(module, report)
    if not drafts:
        report.cannot("all", "no DAG was found")
    else:
        report.differs("all", "a run belongs to a task, not to a DAG: a task starts whenever those before it succeed")
        report.differs("all", "the logical time of a run is when it was due, not the begin of an interval before it")
    return Imported(tuple(draft.document() for draft in drafts), tuple(report.notes))


def _parsed(raw: bytes) -> ast.Module:
    if len(raw) > LARGEST:
        raise DecodeError("$", f"has {len(raw)} bytes, the most are {LARGEST}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw)
    except SyntaxError as exc:
        raise DecodeError(f"line {exc.lineno}" if exc.lineno else "$", f"is not valid Python: {exc.msg}") from exc
    except (ValueError, RecursionError, MemoryError) as exc:
        raise DecodeError("$", f"is not valid Python: {exc or type(exc).__name__}") from exc


def _dags(module: ast.Module) -> Iterator[_Dag]:
    """DAGs at the top level: `with DAG(…):`, `dag = DAG(…)` and functions with `@dag`."""
    for statement in module.body:
        match statement:
            case ast.With(items=items, body=body):
                for item in items:
                    if isinstance(item.context_expr, ast.Call) and called(item.context_expr) == "DAG":
                        yield _Dag(item.context_expr, statement.lineno, body, "")
            case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call() as call) if called(call) == "DAG":
                body: list[ast.stmt] = [each for each in module.body if isinstance(each, ast.Assign | ast.Expr)]
                yield _Dag(call, statement.lineno, body, "", variable)
            case ast.FunctionDef(name=name, body=body, decorator_list=decorators):
                for each in decorators:
                    if isinstance(each, ast.Call) and called(each) == "dag":
                        yield _Dag(each, statement.lineno, body, name)
                    elif isinstance(each, ast.Name) and each.id == "dag":
                        yield _Dag(None, statement.lineno, body, name)
            case _:
                pass


def _note_made_dags(module: ast.Module, report: Report) -> None:
    """Reports loops and conditions that make DAGs."""
    for statement in module.body:
        if isinstance(statement, ast.For | ast.While | ast.If | ast.Try):
            calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call))
            if any(called(each) in {"DAG", "dag"} for each in calls):
                kind = type(statement).__name__.lower()
                report.cannot(f"line {statement.lineno}", f"the DAGs that are made in this `{kind}` are not read")


def _draft(dag: _Dag, reader: LiteralReader, report: Report, namespace: str) -> AppDraft | None:
    path = f"line {dag.line}"
    options, unread = _options(dag, reader)
    name = options.get("dag_id", dag.name)
    if not isinstance(name, str) or not name or "dag_id" in unread:
        why = unread["dag_id"].text if "dag_id" in unread else "it has no name"
        report.cannot(path, f"a DAG is left out: {why}")
        return None
    tasks = TaskReader(reader, report, variable=dag.variable)
    tasks.read(dag.body)
    draft = AppDraft(AppRef(namespace, valid_name(name)), report)
    if not tasks.tasks:
        report.cannot(path, f"DAG {name} has no task that can be read")
    for option in sorted((options.keys() | unread.keys()) - _KNOWN):
        report.cannot(path, f"DAG {name}: `{option}` is left out")
    _add_tasks(draft, name, tasks.tasks, _Policies(options, unread, path, report))
    return draft


def _options(dag: _Dag, reader: LiteralReader) -> tuple[dict[str, Any], dict[str, UnreadableError]]:
    options: dict[str, Any] = {}
    unread: dict[str, UnreadableError] = {}
    call = dag.call
    named = [] if call is None else [(each.arg, each.value) for each in call.keywords if each.arg]
    if call is not None and call.args:
        named.append(("dag_id", call.args[0]))
    for name, value in named:
        try:
            options[name] = reader.read(value)
        except UnreadableError as exc:
            unread[name] = exc
    return options, unread


class _Policies:
    """What the arguments of a DAG say about its schedules."""

    def __init__(self, options: dict[str, Any], unread: dict[str, UnreadableError], path: str, report: Report) -> None:
        self._options = options
        defaults = options.get("default_args")
        self._defaults: dict[str, Any] = defaults if isinstance(defaults, dict) else {}
        self._path = path
        self._report = report
        start = options.get("start_date") or self._defaults.get("start_date")
        zone = start.zone if isinstance(start, Instant) else ""
        self.trigger = self._trigger(unread, zone)

    def _trigger(self, unread: dict[str, UnreadableError], zone: str) -> dict[str, Any] | None:
        for name in _SCHEDULE:
            if name in unread:
                self._report.cannot(f"line {unread[name].line}", f"its {name} {unread[name].text}")
                return None
        given = [self._options[name] for name in _SCHEDULE if name in self._options]
        if not given:
            self._report.differs(
                self._path, "a DAG without `schedule` runs daily in Airflow 2.3 and before; here never"
            )
            return None
        return trigger_of(given[0], zone, self._path, self._report)

    def of_first(self) -> dict[str, Any]:
        """Fields of the schedules that the DAG's own schedule satisfies."""
        found: dict[str, Any] = {"misfire": "all" if self._options.get("catchup") is True else "one"}
        if self._options.get("catchup") is True:
            text = "catchup=True: missed ticks are made up for from the deployment on (`backfill` for those before)"
            self._report.differs(self._path, text)
        most = self._options.get("max_active_runs")
        if isinstance(most, int) and most > 0:
            found["constraints"] = [{"type": "CONCURRENCY", "maxConcurrency": most, "waitUntilMet": True}]
            found["overlap"] = "queue"
            self._report.differs(self._path, f"max_active_runs={most} limits each first task, not the DAG as a whole")
        return found

    def of_any(self, task: DagTask) -> dict[str, Any]:
        """Fields of the schedule of any task."""
        found: dict[str, Any] = {}
        if self._options.get("is_paused_upon_creation") is True:
            found["enabled"] = False
        retries = task.options.get("retries", self._defaults.get("retries"))
        if isinstance(retries, int) and not isinstance(retries, bool) and retries > 0:
            delay = task.options.get("retry_delay", self._defaults.get("retry_delay"))
            wait = duration_text(delay) if isinstance(delay, timedelta) and delay > timedelta() else "5m"
            found["retry"] = {"attempts": retries + 1, "delay": wait}
        longest = task.options.get("execution_timeout", self._defaults.get("execution_timeout"))
        if isinstance(longest, timedelta) and longest > timedelta():
            found["maxDuration"] = duration_text(longest)
        return found


def _add_tasks(draft: AppDraft, dag: str, tasks: dict[str, DagTask], policies: _Policies) -> None:
    programs = {name: draft.add_program(name, task.program, f"line {task.line}") for name, task in tasks.items()}
    circular = unreachable(tasks)
    for name, task in tasks.items():
        path, program = f"line {task.line}", programs[name]
        _note_options(task, path, draft.report)
        if program is None:
            continue
        if name in circular:
            draft.report.cannot(path, f"task {name} has no schedule: it is in a circle of tasks, or after one")
            continue
        if task.after:
            trigger = _after(task, [programs[each] for each in task.after], draft, path)
            own: dict[str, Any] = {}
        else:
            trigger, own = policies.trigger, policies.of_first()
        if trigger is None:
            draft.report.carries(path, f"program {draft.ref.app}.{program}, without a schedule")
            continue
        schedule = {"program": program, "trigger": trigger, **own, **policies.of_any(task)}
        if draft.add_schedule(program, schedule, path) is not None:
            after = f" after {', '.join(task.after)}" if task.after else f" by the schedule of DAG {dag}"
            draft.report.carries(path, f"program and schedule {draft.ref.app}.{program},{after}")


def _after(task: DagTask, programs: list[str | None], draft: AppDraft, path: str) -> dict[str, Any]:
    """The trigger of a task behind others."""
    rule = task.options.get("trigger_rule", "all_success")
    rule = rule.rpartition(".")[2] if isinstance(rule, str) else "all_success"
    statuses = {"all_done": _ALL_ENDED, "all_failed": ["FAILED"], "one_failed": ["FAILED"]}.get(rule, ["COMPLETED"])
    if rule not in {"all_success", "all_done", "one_success", "all_failed", "one_failed"}:
        draft.report.cannot(path, f"task {task.name}: trigger_rule {rule} is not known here; all must succeed")
    parts = [
        {
            "type": "PROGRAM_STATUS",
            "programId": {"namespace": draft.ref.namespace, "application": draft.ref.app, "program": each},
            "programStatuses": statuses,
        }
        for each in programs
        if each is not None
    ]
    if len(parts) == 1:
        return parts[0]
    return {"type": "OR" if rule.startswith("one_") else "AND", "triggers": parts}


def _note_options(task: DagTask, path: str, report: Report) -> None:
    """Reports the options of a task that are left out."""
    for option in ("pool", "priority_weight", "sla", "on_failure_callback", "outlets", "inlets", "depends_on_past"):
        value = task.options.get(option)
        if value not in (None, [], False) or isinstance(value, Construction):
            report.cannot(path, f"task {task.name}: `{option}` is left out")

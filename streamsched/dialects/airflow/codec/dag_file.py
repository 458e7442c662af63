"""A Python file with DAGs, read as a syntax tree: it is never executed, and Airflow is not needed.

Each DAG becomes an app with one schedule, whose runs are the arrivals of a graph with a task for each task of the DAG.
Every keyword of a DAG, an operator and a decorator is a row of the table: carried, changed or refused.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from streamsched.codec.moving.draft import Imported, NoteKind, free_name
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.dialects.airflow.codec.answers import AirflowAnswers
from streamsched.dialects.airflow.codec.dag import schedule_of
from streamsched.dialects.airflow.codec.dag_app import DagApp
from streamsched.dialects.airflow.codec.operators import DagContext, ProgramReader
from streamsched.dialects.airflow.codec.source.calls import DAG, decorator_of, making_calls
from streamsched.dialects.airflow.codec.source.keywords import DEFAULTS, ImportTable, Keywords
from streamsched.dialects.airflow.codec.source.literal import LiteralReader, UnreadableError, called_name
from streamsched.dialects.airflow.codec.source.making import TaskMaker
from streamsched.dialects.airflow.codec.source.order import CircleError, TaskOrder
from streamsched.dialects.airflow.codec.source.statements import StatementReader
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import AppRef
from streamsched.domain.schedules.app import MOST_IN_APP

#: Largest DAG file, in bytes.
LARGEST: Final = 4 * 1024 * 1024
#: Modules that are only in Airflow 3.
_THIRD: Final = re.compile(r"airflow\.(sdk|providers\.standard)\b")
_SECOND: Final = re.compile(r"\bschedule_interval\b|\bexecution_date\b|airflow\.(operators|utils\.dates|models)\b")


@dataclass(frozen=True, slots=True)
class _Dag:
    """A call that makes a DAG, and the function with its tasks; None: they are in the module. `variable`: by which the
    tasks name it.
    """

    call: ast.Call | None
    line: int
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    variable: str = ""


def dags_from_source(raw: bytes, *, namespace: str, answers: AirflowAnswers | None = None) -> Imported:
    """The apps of the DAGs in a file.

    Raises:
        DecodeError: it is too large, or not Python.
    """
    module = _parse(raw)
    file = _DagFile(module, raw.decode("utf-8", "replace"), namespace, answers or AirflowAnswers())
    apps = [app for dag in _dags(module) if (app := file.app_of(dag)) is not None]
    file.finish(found=bool(apps))
    return Imported(tuple(apps), file.table.notes())


def _parse(raw: bytes) -> ast.Module:
    if len(raw) > LARGEST:
        raise DecodeError("$", f"has {len(raw)} bytes, the most are {LARGEST}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw)
    except SyntaxError as exc:
        where = f"line {exc.lineno}" if exc.lineno else "$"
        raise DecodeError(where, f"is not valid Python 3: {exc.msg}") from exc
    except (ValueError, RecursionError, MemoryError) as exc:
        raise DecodeError("$", f"is not valid Python 3: {exc or type(exc).__name__}") from exc


def _dags(module: ast.Module) -> Iterator[_Dag]:
    """DAGs at the top level: `with DAG(…):`, `dag = DAG(…)` and functions with `@dag`."""
    for statement in module.body:
        match statement:
            case ast.With(items=items):
                for item in items:
                    if isinstance(item.context_expr, ast.Call) and called_name(item.context_expr) == "DAG":
                        name = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else ""
                        yield _Dag(item.context_expr, statement.lineno, variable=name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if called_name(call) == "DAG":
                yield _Dag(call, statement.lineno, variable=name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if decorator := decorator_of(statement, DAG):
                yield _Dag(decorator.call, statement.lineno, statement)
            case _:
                pass


class _DagFile:
    """The DAGs of one file, one after the other."""

    def __init__(self, module: ast.Module, text: str, namespace: str, answers: AirflowAnswers) -> None:
        self._module = module
        self._namespace = namespace
        self._answers = answers
        self._stated = answers.version != 0
        self._version = answers.version or (3 if _THIRD.search(text) and not _SECOND.search(text) else 2)
        self._reader = LiteralReader(module)
        self._visited: set[int] = set()
        self._names: set[str] = set()
        self._given: set[str] = set()
        self.table = ImportTable()

    def app_of(self, dag: _Dag) -> dict[str, Any] | None:
        """The app of a DAG; None when there is none, which the table says."""
        try:
            dag_id = self._keywords(dag, "DAG", "", ImportTable()).value("dag_id")
        except UnreadableError as exc:
            return self._leave_out(dag, self._keywords(dag, "DAG", ""), exc.text)
        dag_id = dag_id if dag_id is not None or dag.function is None else dag.function.name
        if not isinstance(dag_id, str) or not dag_id:
            return self._leave_out(dag, self._keywords(dag, "DAG", ""), "it has no name")
        name = free_name(dag_id, self._names)
        self._names.add(name)
        keywords = self._keywords(dag, f"DAG {dag_id[:60]}", name)
        try:
            return self._app(dag, dag_id, name, keywords)
        except (UnreadableError, CircleError, InvalidError, RecursionError) as exc:
            why = f"{exc} wait for each other" if isinstance(exc, CircleError) else str(exc) or type(exc).__name__
            return self._leave_out(dag, keywords, why)

    def _keywords(self, dag: _Dag, owner: str, app: str, table: ImportTable | None = None) -> Keywords:
        found = Keywords(table or self.table, self._reader, owner, app)
        if dag.call is not None:
            self._visited.add(id(dag.call))
            found.add_call(dag.call, ("dag_id",) if dag.call.args else ())
        return found

    def _app(self, dag: _Dag, dag_id: str, name: str, keywords: Keywords) -> dict[str, Any]:
        if name == dag_id:
            keywords.carry("dag_id", f"app {name}")
        else:
            keywords.change("dag_id", f"app {name}: names have letters, digits, '-' and '_', and are of one app each")
        defaults = Keywords(self.table, self._reader, DEFAULTS, name)
        if DEFAULTS in keywords and not defaults.add_dictionary(keywords.node(DEFAULTS), DEFAULTS):
            keywords.refuse(DEFAULTS, UnreadableError(keywords.node(DEFAULTS)).text)
        maker = TaskMaker(self._reader, self.table, name, defaults)
        statements = StatementReader(
            self._reader, self.table, maker, call=None if dag.function else dag.call, variable=dag.variable
        )
        statements.learn(self._module.body)
        try:
            statements.read(self._module.body if dag.function is None else dag.function.body)
        finally:
            self._visited |= maker.visited
        most = MOST_IN_APP["tasks"] - 1
        if len(maker.tasks) > most:
            raise DecodeError("$", f"it has {len(maker.tasks)} tasks, and an app at most {most}: divide it")
        schedule = schedule_of(keywords, defaults, app=name, dag_id=dag_id, version=self._version, stated=self._stated)
        ref = AppRef(self._namespace, name)
        app = DagApp(ref, maker.tasks, TaskOrder(maker.tasks), self.table, self._answers)
        functions = {
            each.name: each for each in self._module.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        context = DagContext(dag_id, schedule.times, schedule.params, self._answers.variables)
        document = app.document(schedule, ProgramReader(self._reader, functions, context))
        app_from_json(document)  # what is written, `validate` accepts
        self._given |= {key for task in maker.tasks for key in (task, f"{name}.{task}")}
        keywords.finish()
        maker.finish()
        defaults.finish("no task takes it")
        if not maker.tasks:
            self.table.note(NoteKind.REFUSED, dag.line, f"DAG {dag_id}", "it has no task that can be read", app=name)
        return document

    def _leave_out(self, dag: _Dag, keywords: Keywords, why: str) -> None:
        self.table.note(NoteKind.REFUSED, dag.line, "DAG", f"is left out: {why}")
        keywords.app = ""
        keywords.finish("the DAG is left out")

    def finish(self, *, found: bool) -> None:
        """Refuses the keywords of what was not read, wherever it is in the file."""
        for call, name in making_calls(self._module):
            if id(call) in self._visited:
                continue
            keywords = Keywords(self.table, self._reader, name, "")
            keywords.add_call(call, ("dag_id",) if called_name(call) == "DAG" and call.args else ())
            if isinstance(call.func, ast.Attribute | ast.Name) and called_name(call) in ("task", "task_group"):
                keywords.finish("no task is made: the function is not called where it can be read")
                continue
            self.table.note(NoteKind.REFUSED, call.lineno, name, "is left out: it is made where it cannot be read")
            keywords.finish("is of what is left out")
        for each in self._answers.programs.keys() - self._given:
            self.table.note(NoteKind.REFUSED, 0, str(each)[:60], "is a given program, and there is no such task")
        if not found:
            self.table.note(NoteKind.REFUSED, 0, "", "no DAG was found")

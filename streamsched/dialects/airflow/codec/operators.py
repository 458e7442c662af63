"""What each operator runs: a program here, or a placeholder that fails until it is replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from streamsched.codec.moving.draft import placeholder
from streamsched.dialects.airflow.codec.branches import BRANCHES, branch_of
from streamsched.dialects.airflow.codec.jinja import Filled, LogicalTimes, TemplateError, Templates, usual_arguments
from streamsched.dialects.airflow.codec.source.dag_task import DagTask, TaskProgram
from streamsched.dialects.airflow.codec.source.functions import Function, does_nothing, returned_value
from streamsched.dialects.airflow.codec.source.keywords import Keywords
from streamsched.dialects.airflow.codec.source.literal import (
    LiteralReader,
    UnreadableError,
    is_dictionary,
    is_list,
    source_of,
)
from streamsched.domain.graph.time_argument import TimeArgument
from streamsched.domain.jobs.failure import LARGEST_EXIT_CODE
from streamsched.domain.schedules.shell_command import variable_of
from streamsched.domain.schedules.template import has_placeholder

_EMPTY: Final = frozenset({"EmptyOperator", "DummyOperator"})
#: The exit code with which BashOperator skips its task.
_SKIP: Final = 99
#: Options of SparkSubmitOperator, and what they are in Spark's configuration.
_SPARK_CONF: Final = {
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "driver_memory": "spark.driver.memory",
    "num_executors": "spark.executor.instances",
    "total_executor_cores": "spark.cores.max",
}
_PLAIN_VALUE: Final = re.compile(r"[\w./:=,@%+-]*", re.ASCII)


class _NeedsPersonError(Exception):
    """Why the program of a task is a placeholder."""


@dataclass(frozen=True, slots=True)
class DagContext:
    """What templates of a DAG name.

    Attributes:
        params: of the DAG, as texts.
        variables: values of Airflow's variables that are known.
    """

    dag_id: str
    times: LogicalTimes
    params: Mapping[str, str]
    variables: Mapping[str, str]


class ProgramReader:
    """Reads the programs of the tasks of one DAG. `functions`: those of the module, for `python_callable`."""

    def __init__(self, reader: LiteralReader, functions: Mapping[str, Function], dag: DagContext) -> None:
        self._reader = reader
        self._functions = functions
        self._dag_id = dag.dag_id
        self._times = dag.times
        self._params = dag.params
        self._variables = dag.variables

    def read(self, task: DagTask) -> TaskProgram:
        """What the task runs. Says of each keyword of its operator what became of it."""
        templates = Templates(self._times, {"dag.dag_id": self._dag_id, "task.task_id": task.id})
        try:
            if task.doubt:
                raise _NeedsPersonError(task.doubt)
            found = self._program(task, templates)
        except _NeedsPersonError as exc:
            found = _placeholder(task, str(exc))
        except TemplateError as exc:
            found = _placeholder(task, f"the template {exc.template} is not understood")
        except UnreadableError as exc:
            found = _placeholder(task, exc.text)
        if task.kind in BRANCHES:
            found = branch_of(task, found.program, self._functions, self._reader, doubt=task.doubt)
        return found

    @property
    def usual_arguments(self) -> dict[str, TimeArgument]:
        """The arguments of a program that a person writes."""
        return usual_arguments(self._times)

    def _program(self, task: DagTask, templates: Templates) -> TaskProgram:
        if task.kind in _EMPTY:
            return TaskProgram({"type": "bash", "command": "true"})
        match task.kind:
            case "BashOperator":
                return self._bash(task, templates, task.keywords.value("bash_command"), "bash_command")
            case "@task.bash":
                assert task.function is not None
                return self._bash(task, templates, returned_value(task.function, self._reader, task.bound), "")
            case "SparkSubmitOperator":
                return self._spark(task, templates)
            case "TriggerDagRunOperator":
                return self._started_dag(task.keywords)
            case _ if task.function is not None:
                if task.kind == "@task" and does_nothing(task.function):
                    if task.given is not None:
                        task.given.finish("is an argument of a function that does nothing")
                    return TaskProgram({"type": "bash", "command": "true"})
                where = f"function {task.function.name} of Python (line {task.function.lineno})"
                raise _NeedsPersonError(
                    f"{task.kind} {task.id} is the {where}; type python with `target` runs one without Airflow"
                )
            case _ if "python_callable" in task.keywords:
                name = source_of(task.keywords.node("python_callable"))
                raise _NeedsPersonError(
                    f"{task.kind} {task.id} runs {name} of Python; type python with `target` runs it without Airflow"
                )
            case _:
                raise _NeedsPersonError(f"{task.kind} {task.id} is not known here")

    def _bash(self, task: DagTask, templates: Templates, command: Any, name: str) -> TaskProgram:
        if not isinstance(command, str) or not command.strip():
            raise _NeedsPersonError(f"{task.kind} {task.id} has no command")
        if command.endswith((".sh", ".bash")):
            raise _NeedsPersonError(
                f"{task.kind} {task.id} reads its command from the file {command}; give its content"
            )
        keywords = task.keywords
        texts = {"": command}
        environment = self._environment(keywords)
        texts |= {f"env {each}": value for each, value in environment.items()}
        folder = keywords.value("cwd")
        texts |= {"cwd": folder} if isinstance(folder, str) else {}
        read = {each: templates.read(text) for each, text in texts.items()}
        filled = any(each.templated for each in read.values())
        if filled:
            _check_shell(command)
            read = {each: found if found.templated else _double_braces(found) for each, found in read.items()}
        lines = [self._guard(found, defaults_known=self._variables) for found in read.values()]
        lines += [f"export {each}={_quote(read[f'env {each}'].text)}" for each in environment]
        lines += [f"cd {_quote(read['cwd'].text)} || exit 1"] if "cwd" in read else []
        text = "\n".join([*(line for line in lines if line), read[""].text])
        program: dict[str, Any] = {"type": "bash", "command": text, **({"fill": True} if filled else {})}
        keywords.carry(name, "the command" if not filled else "the command, its templates as arguments")
        keywords.carry("cwd", "the folder")
        keywords.carry("output_encoding", "the log is bytes")
        if task.given is not None:
            for each in task.given.names():
                task.given.carry(each, "is in the command")
        codes = self._skip_codes(keywords)
        if codes:
            program["success_codes"] = list(codes)
        program |= self._defaults(task, read.values())
        return TaskProgram(program, dict(templates.arguments), codes)

    def _environment(self, keywords: Keywords) -> dict[str, str]:
        env = keywords.value("env")
        if env is None:
            keywords.carry("append_env", "the program has the variables of its launcher that it may have")
            return {}
        if not is_dictionary(env):
            raise _NeedsPersonError("its env is no dictionary")
        for name, value in env.items():
            if isinstance(value, UnreadableError):
                raise _NeedsPersonError(f"variable {name} of its env: {value.text}")
            if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                raise _NeedsPersonError(f"variable {name} of its env is no text")
        if keywords.values().get("append_env") is True:
            keywords.carry("env", "variables of the program")
        else:
            keywords.change("env", "variables of the program beside those of its launcher; there in their place")
        keywords.carry("append_env", "see env")
        return dict(env)

    @staticmethod
    def _skip_codes(keywords: Keywords) -> tuple[int, ...]:
        """The exit codes that skip the task."""
        found: tuple[int, ...] = (_SKIP,)
        for name in ("skip_on_exit_code", "skip_exit_code"):
            if name not in keywords:
                continue
            value = keywords.value(name)
            codes: list[Any] = value if is_list(value) else [] if value is None else [value]
            if not all(isinstance(each, int) and 0 < each <= LARGEST_EXIT_CODE for each in codes):
                raise _NeedsPersonError(f"its {name} is not from 1 to {LARGEST_EXIT_CODE}")
            found = tuple(dict.fromkeys(codes))
            keywords.carry(name, "the task is SKIPPED" if codes else "no exit code skips the task")
        return found

    def _guard(self, found: Filled, *, defaults_known: Mapping[str, str]) -> str:
        """A line that fails where a variable of Airflow has no value here."""
        missing = [name for name, variable in found.variables.items() if variable not in defaults_known]
        return "\n".join(
            f": \"${{{{{variable_of(name)}?Airflow's variable {name.removeprefix('var.')} is a preference of the "
            'namespace here, or a default of the program}}"'
            for name in missing
        )

    def _defaults(self, task: DagTask, found: Any) -> dict[str, Any]:
        """The default arguments: parameters and variables that the templates name."""
        params = {**self._params, **_params(task.keywords)}
        values: dict[str, str] = {}
        for each in found:
            for argument, name in each.params.items():
                if name not in params:
                    raise _NeedsPersonError(f"the template names params.{name}, which has no value in the file")
                values[argument] = params[name]
                if not _PLAIN_VALUE.fullmatch(params[name]):
                    text = f"its value '{params[name][:30]}' is one word of the command; there it is a part of its text"
                    task.keywords.change("bash_command", f"params.{name}: {text}")
            values |= {arg: self._variables[name] for arg, name in each.variables.items() if name in self._variables}
        task.keywords.carry("params", "default arguments of the program")
        return {"defaults": values} if values else {}

    def _spark(self, task: DagTask, templates: Templates) -> TaskProgram:
        keywords = task.keywords
        main = keywords.value("application")
        if not isinstance(main, str) or not main:
            raise _NeedsPersonError(f"{task.kind} {task.id} has no application")
        if "{" in main:
            raise _NeedsPersonError(f"its application is {main}: names of files are not chosen by a run")
        given = keywords.value("application_args")
        arguments: list[str] = []
        read: list[Filled] = []
        for each in given if is_list(given) else []:
            if isinstance(each, str) and "{{" not in each and has_placeholder(each):
                raise _NeedsPersonError(f"its argument {each[:40]} has braces, which are a placeholder here")
            found = templates.read(str(each), doubled=False)
            read.append(found)
            arguments.append(found.text)
        conf = keywords.value("conf")
        texts = {key: str(value) for key, value in conf.items()} if is_dictionary(conf) else {}
        for option, setting in _SPARK_CONF.items():
            value = keywords.value(option)
            if value is not None:
                texts[setting] = str(value)
                keywords.carry(option, f"conf {setting}")
        name = keywords.value("name")
        if isinstance(name, str):
            texts["spark.app.name"] = name
            keywords.carry("name", "conf spark.app.name")
        keywords.carry("application", "main")
        keywords.carry("application_args", "arguments")
        keywords.carry("conf", "conf")
        keywords.change("conn_id", "the master is that of the launcher")
        keywords.carry("verbose", "is in the log of the run")
        program = {"type": "spark", "main": main, "conf": texts, "arguments": arguments}
        return TaskProgram({**program, **self._defaults(task, read)}, dict(templates.arguments))

    @staticmethod
    def _started_dag(keywords: Keywords) -> TaskProgram:
        """An event for which the schedule of the other DAG waits, when it has none of its own."""
        other = keywords.value("trigger_dag_id")
        if not isinstance(other, str) or "{" in other:
            raise _NeedsPersonError("the DAG that it starts is not named in the file")
        name = started_event(other)
        keywords.change("trigger_dag_id", f"publishes event {name}, which starts a DAG without a schedule")
        return TaskProgram({"type": "publish", "event": name, "attributes": {"by": "{task}"}})


def started_event(dag_id: str) -> str:
    """The event that starts a DAG without a schedule."""
    return f"start-{re.sub(r'[^A-Za-z0-9_-]+', '-', dag_id)[:80].strip('-') or 'dag'}"


def params_as_texts(values: Any) -> dict[str, str]:
    """Parameters as Jinja writes them; those that are no plain values are left out."""
    found: dict[str, str] = {}
    for name, value in values.items() if is_dictionary(values) else ():
        plain = value
        if getattr(value, "name", "") == "Param":
            plain = value.positional[0] if value.positional else value.named.get("default")
        if isinstance(plain, str | int | float):
            found[name] = str(plain)
    return found


def _params(keywords: Keywords) -> dict[str, str]:
    return params_as_texts(keywords.values().get("params"))


def _placeholder(task: DagTask, why: str) -> TaskProgram:
    text = "is a placeholder that fails: " + why
    for name in ("bash_command", "application", "python_callable", "trigger_dag_id"):
        task.keywords.refuse(name, text)
    if task.given is not None:
        task.given.finish("is an argument of the function, which is a placeholder")
    found = TaskProgram(placeholder(f"{task.id}: {why}"))
    return replace(found, waits_for_person=why)


def _check_shell(command: str) -> None:
    """Quotes in comments and here-documents are none to the shell, so templates after them cannot be placed."""
    if "<<" in command or re.search(r"(^|\s)#.*['\"]", command):
        raise _NeedsPersonError("its command has templates beside a here-document or a comment with quotes")


def _double_braces(found: Filled) -> Filled:
    return replace(found, text=found.text.replace("{", "{{").replace("}", "}}"))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

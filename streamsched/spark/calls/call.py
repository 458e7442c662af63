"""What a call has of its run, and how code that takes `main(ns)` gets its `ns`."""

from __future__ import annotations

import argparse
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Entry points of own kinds of tasks: an object with `main(ns)` and optionally `build_arg_parser`.
TASK_KINDS: Final = "streamsched.task_kinds"
#: Arguments of a node's run that are no parts of its job id.
_NOT_PARTS: Final = frozenset({"job_id", "task", "app_name"})


class CallError(Exception):
    """The code cannot be called as it is defined; the text becomes the reason of the run."""


class Call(NamedTuple):
    """The run that a call is for.

    Attributes:
        task: the graph's task, or the program of a run without a node.
        job_id: of the node; empty without one.
    """

    arguments: Mapping[str, str]
    task: str
    job_id: str

    @property
    def parts(self) -> dict[str, str]:
        """The arguments that can be parameters: parts of the job id, and others of the schedule and the program."""
        return {name: value for name, value in self.arguments.items() if name.isidentifier() and name not in _NOT_PARTS}


def this_call(environ: Mapping[str, str] = os.environ) -> Call:
    """The call of this process, from the run file.

    Raises:
        CallError: there is none.
    """
    path = environ.get("STREAMSCHED_RUN_FILE")
    if path is None:
        raise CallError("STREAMSCHED_RUN_FILE is not set: this process is started by a runner")
    content: Mapping[str, Any] = json.loads(Path(path).read_bytes())
    arguments: dict[str, str] = content["arguments"]
    program: str = content["program"].rpartition(".")[2]
    return Call(arguments, arguments.get("task", program), arguments.get("job_id", ""))


def accepted_arguments(function: Callable[..., Any], given: Mapping[str, str]) -> dict[str, str]:
    """The arguments that are parameters of the function; all of them when it takes `**any`."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return dict(given)
    named = {each.name for each in parameters if each.kind is not inspect.Parameter.POSITIONAL_ONLY}
    return {name: value for name, value in given.items() if name in named}


def function_of(target: str) -> Callable[..., Any]:
    """The function of `module:function`.

    Raises:
        CallError: the module has no such function.
        ImportError: there is no such module.
    """
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    if not callable(found):
        raise CallError(f"module {module} ({origin(import_module(module))}) has no function '{path}'")
    return found


def call_function(function: Callable[..., Any], call: Call) -> object:
    """Calls a function with the arguments of the run that are its parameters.

    Raises:
        CallError: a parameter without default has no argument.
    """
    given = {name: value for name, value in call.arguments.items() if name.isidentifier()}
    chosen = accepted_arguments(function, given)
    needed = [
        each.name
        for each in inspect.signature(function).parameters.values()
        if each.default is inspect.Parameter.empty
        and each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    if missing := [name for name in needed if name not in chosen]:
        known = ", ".join(sorted(given)) or "none"
        raise CallError(f"parameter '{missing[0]}' has no argument; the run has: {known}")
    return function(**chosen)


def kind_of(name: str) -> Any:
    """The object of an own kind of tasks: an entry point, or else a module.

    Raises:
        CallError: there is neither.
    """
    for point in entry_points(group=TASK_KINDS, name=name):
        return point.load()
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (name == exc.name or name.startswith(f"{exc.name}.")):
            raise
        known = ", ".join(sorted(each.name for each in entry_points(group=TASK_KINDS))) or "none"
        raise CallError(
            f"there is no entry point '{name}' of group {TASK_KINDS} (known: {known}) and no module of this name"
        ) from exc


def options_of(
    code: Any, options: Sequence[str], call: Call, *, before: argparse.ArgumentParser | None = None
) -> argparse.Namespace:
    """The `ns` of code that takes it: the options that its `build_arg_parser` (a parser, or a function that gives one)
    and `before` parse, with `app_name`, `job_id` and the parts of the job id that no option has.

    Raises:
        CallError: `build_arg_parser` gives no parser.
    """
    own = getattr(code, "build_arg_parser", None)
    own = own() if callable(own) else own
    if own is not None and not isinstance(own, argparse.ArgumentParser):
        raise CallError(f"build_arg_parser gives a {type(own).__name__}, not an ArgumentParser")
    parents = [each for each in (before, own) if each is not None]
    parser = argparse.ArgumentParser(
        prog=call.task, parents=parents, conflict_handler="resolve", add_help=False, allow_abbrev=False
    )
    parser.add_argument("-a", "--app_name", default=call.task)
    parser.add_argument("-j", "--job_id", default=call.job_id)
    found = parser.parse_args(list(options))
    for name, value in call.parts.items():
        if not hasattr(found, name):
            setattr(found, name, value)
    return found


def origin(module: Any) -> str:
    """The file of a module, for messages."""
    return getattr(module, "__file__", None) or "without a file"

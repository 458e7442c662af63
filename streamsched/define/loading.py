"""Loads an app definition from a Python file or module, or from a YAML or JSON file. Forms of a target:

pipeline.py    pipeline.py:app    package.pipelines    package.pipelines:app    pipeline.yaml    pipeline.json
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import streamsched
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.define.app import App, loading_namespace
from streamsched.define.programs import resolve_paths
from streamsched.define.yaml import YamlError, read_yaml
from streamsched.domain.errors import DecodeError, InvalidDefinitionError, InvalidError, NotFoundError, StreamschedError
from streamsched.domain.names import check_namespace
from streamsched.domain.schedules.app import AppDefinition

_PACKAGE: Final = Path(streamsched.__file__).resolve().parent
#: Names in the path or the reason of an error: `tasks.one.depends_on`, `programs['one']`, `schedule 'one' waits …`.
_NAMED: Final = re.compile(r"\b(?:tasks|schedules|programs)(?:\.|\[')([\w-]+)|\b(?:task|schedule|program) '([^']+)'")
_DATA: Final = frozenset({".yaml", ".yml", ".json"})


def load_app(target: str, *, namespace: str = "") -> AppDefinition:
    """The definition in `target`. Relative main files are resolved against the folder of the defining file.

    Python code is executed. Meanwhile its folder, or for a module the current folder, is first on the import path.

    Args:
        namespace: of the app, which must not name another; "": the one that it names, else `default`.

    Raises:
        NotFoundError: the file or module does not exist.
        InvalidError: it defines no app or several, or the definition is invalid; the path starts with the file.
    """
    return load_app_and_folder(target, namespace=namespace)[0]


def load_app_and_folder(target: str, *, namespace: str = "") -> tuple[AppDefinition, Path]:
    """As `load_app`, with the folder of the defining file."""
    if not namespace:
        return _load(target, "")
    check_namespace(namespace)
    token = loading_namespace.set(namespace)
    try:
        app, folder = _load(target, namespace)
    finally:
        loading_namespace.reset(token)
    if app.ref.namespace != namespace:
        raise InvalidDefinitionError(
            f"{target} $.namespace",
            f"is '{app.ref.namespace}', so it is not deployed in '{namespace}': leave it out",
        )
    return app, folder


def _load(target: str, namespace: str) -> tuple[AppDefinition, Path]:
    if Path(target).suffix.lower() in _DATA:
        return _from_data(Path(target), namespace), Path(target).resolve().parent
    source, _, attribute = target.partition(":")
    if Path(source).suffix.lower() in _DATA:
        raise InvalidDefinitionError(source, f"is no Python file, so it has no '{attribute}'")
    if source.endswith(".py") or "/" in source:
        path = Path(source)
        if not path.is_file():
            raise NotFoundError("file", source)
        module = _from_file(path)
    else:
        module, path = _from_import(source)
    folder = path.resolve().parent
    with _prefix_errors(source):
        app = _app_of(module, attribute, source)
    try:
        return app.definition(folder), folder
    except InvalidError as exc:  # what several definitions are together, such as a circle
        raise _with_prefix(exc, f"{source}{_line_of_name(exc, path)}") from exc


def read_data(path: Path) -> Any:
    """The value in a JSON or YAML file; `-` is standard input.

    Raises:
        NotFoundError: the file does not exist.
        DecodeError: it is neither JSON nor YAML.
    """
    if str(path) == "-":
        return _yaml_value(sys.stdin.buffer.read())
    if not path.is_file():
        raise NotFoundError("file", str(path))
    with _prefix_errors(str(path)):
        return _json(path) if path.suffix.lower() == ".json" else _yaml(path)


def _from_data(path: Path, namespace: str) -> AppDefinition:
    if not path.is_file():
        raise NotFoundError("file", str(path))
    obj = read_data(path)
    if namespace and isinstance(obj, dict) and "namespace" not in obj:
        obj = {**obj, "namespace": namespace}
    with _prefix_errors(str(path)):
        app = app_from_json(obj)
    programs = tuple(resolve_paths(program, path.resolve().parent) for program in app.programs)
    return replace(app, programs=programs)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as exc:
        raise DecodeError("$", f"is not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise DecodeError("$", "is nested too deeply") from exc


def _yaml(path: Path) -> Any:
    return _yaml_value(path.read_bytes())


def _yaml_value(raw: bytes) -> Any:
    try:
        return read_yaml(raw)
    except YamlError as exc:
        raise DecodeError("$", f"is not valid YAML: {exc}") from exc


class _FreshLoader(SourceFileLoader):
    """Compiles the file each time it is loaded, and leaves no `__pycache__` beside it. Python's cache takes a file that
    was changed within a second, to the same size, for the one before.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _from_file(path: Path) -> ModuleType:
    name = f"streamsched_target_{path.stem}"
    loader = _FreshLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or path.suffix != ".py":
        raise InvalidDefinitionError(str(path), "is not a file of Python, YAML or JSON")
    module = importlib.util.module_from_spec(spec)
    # Code such as dataclasses looks up the module of a class in sys.modules while the file is executed.
    sys.modules[name] = module
    with _first_on_path(path.resolve().parent), _translate_errors(str(path)):
        loader.exec_module(module)
    return module


def _from_import(name: str) -> tuple[ModuleType, Path]:
    with _first_on_path(Path.cwd()), _translate_errors(name):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as exc:
            if exc.name is not None and (name == exc.name or name.startswith(f"{exc.name}.")):
                raise NotFoundError("module", name) from exc
            raise
    return module, Path(module.__file__) if module.__file__ else Path.cwd() / "nowhere.py"


def _app_of(module: ModuleType, attribute: str, source: str) -> App:
    if attribute:
        value = getattr(module, attribute, None)
        if not isinstance(value, App):
            problem = "does not exist" if value is None else f"is a {type(value).__name__}, not an App"
            raise InvalidDefinitionError("$", f"'{attribute}' {problem}")
        return value
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    if not apps:
        raise InvalidDefinitionError("$", "defines no App at its top level, as in: app = App('flights')")
    if len({id(app) for app in apps.values()}) > 1:
        choices = ", ".join(f"{source}:{name}" for name in apps)
        raise InvalidDefinitionError("$", f"defines several Apps, choose one: {choices}")
    return next(iter(apps.values()))


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


@contextmanager
def _translate_errors(source: str) -> Iterator[None]:
    """Converts every error of the user's code to an InvalidError whose path is the file and line."""
    try:
        yield
    except InvalidError as exc:
        raise _with_prefix(exc, f"{source}{_line(exc, source)}") from exc
    except StreamschedError:
        raise
    except SyntaxError as exc:
        location = f"{exc.filename or source}:{exc.lineno}"
        raise InvalidDefinitionError(location, f"is not valid Python: {exc.msg}") from exc
    except SystemExit as exc:
        reason = f"ends the process when it is executed, with code {exc.code!r}"
        raise InvalidDefinitionError(f"{source}{_line(exc, source)}", reason) from exc
    except Exception as exc:
        reason = f"failed when it was executed: {type(exc).__name__}: {exc}"
        raise InvalidDefinitionError(f"{source}{_line(exc, source)}", reason) from exc


def _line(exc: BaseException, source: str) -> str:
    """`:7` for the deepest frame of the traceback in the user's file; empty when it has none."""
    files = [(Path(frame.filename).resolve(), frame.lineno) for frame in traceback.extract_tb(exc.__traceback__)]
    if source.endswith(".py"):
        lines = [line for file, line in files if file == Path(source).resolve()]
    else:
        lines = [
            line
            for file, line in files
            if _module_name(file) == source.rpartition(".")[2] and not file.is_relative_to(_PACKAGE)
        ]
    return f":{lines[-1]}" if lines else ""


def _line_of_name(exc: InvalidError, file: Path) -> str:
    """`:7` for the call of the file that gives the task, schedule or program of an error its name; empty when none
    does.
    """
    named = [name for pair in _NAMED.findall(f"{exc.path} {exc.reason}") for name in pair if name]
    try:
        calls = [each for each in ast.walk(ast.parse(file.read_bytes())) if isinstance(each, ast.Call)]
    except (OSError, SyntaxError, ValueError):
        return ""
    lines = {
        given.value: call.lineno
        for call in reversed(calls)
        for given in [*call.args[:1], *(each.value for each in call.keywords if each.arg == "name")]
        if isinstance(given, ast.Constant) and isinstance(given.value, str)
    }
    return next((f":{lines[name]}" for name in named if name in lines), "")


def _module_name(file: Path) -> str:
    return file.parent.name if file.stem == "__init__" else file.stem


@contextmanager
def _prefix_errors(source: str) -> Iterator[None]:
    """Puts the file in front of the path of an InvalidError."""
    try:
        yield
    except InvalidError as exc:
        raise _with_prefix(exc, source) from exc


def _with_prefix(exc: InvalidError, source: str) -> InvalidError:
    return type(exc)(source if exc.path == "$" else f"{source} {exc.path}", exc.reason)
